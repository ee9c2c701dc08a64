//! Data directories that the original wrote, on the real disk: one that it stopped cleanly, and partitions that were
//! damaged. What is right is read from the fixtures.

mod golden {
    pub mod data_directory;
    pub mod fixture;
    pub mod torn;
}
