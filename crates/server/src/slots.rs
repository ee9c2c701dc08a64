//! The connections of one thread.

use crate::connection::Connection;
use std::rc::Rc;

/// The connections of one thread, each in its slot.
#[derive(Default)]
pub(crate) struct Slots {
    all: Vec<Option<Rc<Connection>>>,
    free: Vec<usize>,
    last_serial: u64,
}

impl Slots {
    /// Puts a connection into a free slot; `make` is given the slot and a serial number.
    pub(crate) fn add(&mut self, make: impl FnOnce(usize, u64) -> Connection) -> Rc<Connection> {
        self.last_serial += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        let connection = Rc::new(make(slot, self.last_serial));
        self.all[slot] = Some(Rc::clone(&connection));
        connection
    }

    pub(crate) fn remove(&mut self, connection: &Connection) {
        if self.find(connection.slot, connection.serial).is_some() {
            self.all[connection.slot] = None;
            self.free.push(connection.slot);
        }
    }

    /// The connection in a slot, if it is still the same.
    pub(crate) fn find(&self, slot: usize, serial: u64) -> Option<Rc<Connection>> {
        self.all.get(slot)?.as_ref().filter(|connection| connection.serial == serial).cloned()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rc<Connection>> {
        self.all.iter().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }
}
