//! Protobuf's wire format, as far as Chakra's schema uses it: <https://protobuf.dev/programming-guides/encoding/>.

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Field<'a> {
    /// A varint.
    Number(u64),
    /// Eight bytes.
    Eight([u8; 8]),
    /// Four bytes.
    Four([u8; 4]),
    /// A string, a message, or packed numbers.
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    pub(super) fn bytes(self) -> Option<&'a [u8]> {
        if let Field::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    pub(super) fn number(self) -> Option<u64> {
        if let Field::Number(number) = self { Some(number) } else { None }
    }
}

/// Reads bytes from the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire<'a> {
    pub(super) left: &'a [u8],
}

/// The bytes end within something, or are no protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// They end too early.
    Cut,
    /// They cannot be read.
    Odd,
}

impl<'a> Wire<'a> {
    /// A number of up to ten bytes.
    pub(super) fn varint(&mut self) -> Result<u64, Broken> {
        let mut value = 0_u64;
        for at in 0..10 {
            let byte = *self.left.get(at).ok_or(Broken::Cut)?;
            // the tenth byte has one bit
            if at == 9 && byte > 1 {
                return Err(Broken::Odd);
            }
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.left = &self.left[at + 1..];
                return Ok(value);
            }
        }
        Err(Broken::Odd)
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], Broken> {
        let count = usize::try_from(count).map_err(|_| Broken::Cut)?;
        let (taken, left) = self.left.split_at_checked(count).ok_or(Broken::Cut)?;
        self.left = left;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        let (taken, left) = self.left.split_first_chunk::<N>().ok_or(Broken::Cut)?;
        self.left = left;
        Ok(*taken)
    }

    /// A message after its length; `None` at the end.
    pub(super) fn message(&mut self) -> Result<Option<&'a [u8]>, Broken> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let length = self.varint()?;
        self.take(length).map(Some)
    }

    /// A field's number and its value; `None` at the end.
    pub(super) fn field(&mut self) -> Result<Option<(u64, Field<'a>)>, Broken> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let field = match tag & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Eight(self.fixed()?),
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Four(self.fixed()?),
            _ => return Err(Broken::Odd),
        };
        if tag >> 3 == 0 { Err(Broken::Odd) } else { Ok(Some((tag >> 3, field))) }
    }

    /// Every field.
    pub(super) fn fields(mut self, mut pass: impl FnMut(u64, Field<'a>) -> Result<(), Broken>) -> Result<(), Broken> {
        while let Some((number, field)) = self.field()? {
            pass(number, field)?;
        }
        Ok(())
    }
}

/// Appends the numbers of a repeated field, packed or not.
pub(super) fn numbers(field: Field, to: &mut Vec<u64>) -> Result<(), Broken> {
    match field {
        Field::Number(number) => to.push(number),
        Field::Bytes(packed) => {
            let mut wire = Wire { left: packed };
            while !wire.left.is_empty() {
                to.push(wire.varint()?);
            }
        }
        Field::Eight(_) | Field::Four(_) => return Err(Broken::Odd),
    }
    Ok(())
}

/// Whether these bytes begin as Chakra's traces do: after its length a message with a version, as `0.0.4`, or with named
/// attributes.
pub(super) fn is_trace(bytes: &[u8]) -> bool {
    let mut wire = Wire { left: bytes };
    let Ok(length) = wire.varint() else { return false };
    let graphic = |text: &[u8]| !text.is_empty() && text.len() <= 64 && text.iter().all(u8::is_ascii_graphic);
    // a cut trace may end within it
    let head = wire.left.get(..(length as usize).min(wire.left.len())).unwrap_or_default();
    match (Wire { left: head }).field() {
        Ok(Some((1, Field::Bytes(version)))) => {
            graphic(version) && version.contains(&b'.') && version.first().is_some_and(u8::is_ascii_digit)
        }
        Ok(Some((2, Field::Bytes(attribute)))) => {
            matches!((Wire { left: attribute }).field(), Ok(Some((1, Field::Bytes(name)))) if graphic(name))
        }
        _ => false,
    }
}
