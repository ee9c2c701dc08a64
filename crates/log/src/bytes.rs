//! Little-endian fields in byte slices: what every format of this crate is written and read with.

/// Appends fields to a buffer.
pub(crate) trait Put {
    fn u8(&mut self, value: u8);
    fn u16(&mut self, value: u16);
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
    fn i64(&mut self, value: i64);
    /// A length (u32) and the bytes.
    fn block(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    fn u8(&mut self, value: u8) {
        self.push(value);
    }
    fn u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn i64(&mut self, value: i64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn block(&mut self, bytes: &[u8]) {
        let len = u32::try_from(bytes.len()).expect("blocks are far below 4 GiB");
        self.u32(len);
        self.extend_from_slice(bytes);
    }
}

/// The bytes ended before the field did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bytes end inside a field")]
pub(crate) struct Short;

/// Takes fields off the front of a slice.
#[derive(Debug, Clone)]
pub(crate) struct Take<'a> {
    rest: &'a [u8],
}

impl<'a> Take<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Short> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Short)?;
        self.rest = rest;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Short)?;
        self.rest = rest;
        Ok(*taken)
    }
    pub(crate) fn u8(&mut self) -> Result<u8, Short> {
        Ok(self.array::<1>()?[0])
    }
    pub(crate) fn u16(&mut self) -> Result<u16, Short> {
        self.array().map(u16::from_le_bytes)
    }
    pub(crate) fn u32(&mut self) -> Result<u32, Short> {
        self.array().map(u32::from_le_bytes)
    }
    pub(crate) fn u64(&mut self) -> Result<u64, Short> {
        self.array().map(u64::from_le_bytes)
    }
    pub(crate) fn i64(&mut self) -> Result<i64, Short> {
        self.array().map(i64::from_le_bytes)
    }
    pub(crate) fn block(&mut self) -> Result<&'a [u8], Short> {
        let len = self.u32()? as usize;
        self.bytes(len)
    }
    pub(crate) fn text(&mut self) -> Result<&'a str, Short> {
        std::str::from_utf8(self.block()?).map_err(|_| Short)
    }
}
