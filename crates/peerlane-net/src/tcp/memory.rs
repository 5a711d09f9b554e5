//! The memory at the ends of a stream: where messages come from, and where they go.

use std::io;

use peerlane_gpu::GpuSink;

use super::pattern::{content, difference};

/// Bytes before the content of a message.
pub(crate) const HEADER: usize = 16;

/// Where the messages of a stream come from.
pub(crate) trait Outgoing: Send {
    /// The next message, behind room for its header.
    fn message(&mut self) -> io::Result<&mut [u8]>;
}

/// Where they go.
pub(crate) trait Arriving: Send {
    /// A place for the content of the next message.
    fn room(&mut self) -> io::Result<&mut [u8]>;

    /// The message is there.
    fn filled(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Waits until all messages are where they go to; that of a sample are.
    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Compares the last message, where that is done here.
    fn compare(&mut self) {}

    /// Whether a message was compared, and the first difference; none where that is not done here.
    fn compared(&self) -> Option<(bool, Option<&str>)> {
        None
    }

    /// The GPU memory, if it is some.
    fn sink(&mut self) -> Option<&mut GpuSink> {
        None
    }
}

/// Both of a stream.
pub(crate) struct Ends {
    pub(crate) out: Box<dyn Outgoing>,
    pub(crate) incoming: Box<dyn Arriving>,
}

impl Ends {
    /// Ordinary memory of the process.
    pub(crate) fn of_host(seed: u64, size: usize) -> Ends {
        let expected = content(seed, size);
        let out = [&[0; HEADER], expected.as_slice()].concat();
        let incoming = HostIn { last: vec![0; size], expected, compared: false, corrupt: None };
        Ends { out: Box::new(HostOut(out)), incoming: Box::new(incoming) }
    }
}

/// Header and content, which is the same in every message.
pub(crate) struct HostOut(pub(crate) Vec<u8>);

impl Outgoing for HostOut {
    fn message(&mut self) -> io::Result<&mut [u8]> {
        Ok(&mut self.0)
    }
}

struct HostIn {
    /// Content of the last message.
    last: Vec<u8>,
    /// What the content must be.
    expected: Vec<u8>,
    compared: bool,
    /// The first difference.
    corrupt: Option<String>,
}

impl Arriving for HostIn {
    fn room(&mut self) -> io::Result<&mut [u8]> {
        Ok(&mut self.last)
    }

    fn compare(&mut self) {
        self.compared = true;
        if self.corrupt.is_none() {
            self.corrupt = difference(&self.last, &self.expected);
        }
    }

    fn compared(&self) -> Option<(bool, Option<&str>)> {
        Some((self.compared, self.corrupt.as_deref()))
    }
}
