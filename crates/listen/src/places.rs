//! How many connections there may be, and how many there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The places for connections, shared by all who accept and all who count.
#[derive(Debug)]
pub struct Places {
    taken: AtomicUsize,
    max: AtomicUsize,
    refused: AtomicUsize,
}

/// A taken place; dropping it frees the place.
#[derive(Debug)]
pub struct Place(Arc<Places>);

impl Places {
    /// So many places, all free.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { taken: AtomicUsize::new(0), max: AtomicUsize::new(max), refused: AtomicUsize::new(0) })
    }

    /// Takes one, if one is free.
    pub fn take(self: &Arc<Self>) -> Option<Place> {
        // Counted in before it is judged, so that two takers can't both get the last place.
        let place = Place(Arc::clone(self));
        if self.taken.fetch_add(1, Ordering::Relaxed) < self.max.load(Ordering::Relaxed) {
            return Some(place);
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// How many were asked for and not free, since the beginning.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// How many there are.
    pub fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// Changes how many there are. Who has one keeps it.
    pub fn set_max(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_it_is_dropped() {
        let places = Places::new(2);
        let (one, two) = (places.take(), places.take());
        assert!(one.is_some() && two.is_some());
        assert!(places.take().is_none());
        assert_eq!((places.taken(), places.refused()), (2, 1));
        drop(one);
        assert!(places.take().is_some());
        assert_eq!(places.taken(), 1);
    }

    #[test]
    fn fewer_places_take_none_away() {
        let places = Places::new(2);
        let taken = [places.take(), places.take()];
        places.set_max(1);
        assert_eq!((places.taken(), places.max()), (2, 1));
        drop(taken);
        let one = places.take();
        assert!(one.is_some() && places.take().is_none());
    }
}
