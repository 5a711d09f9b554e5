//! How the threads of a launch lie over the places of a block.

/// Places of a strip in one plane, along X and Y, of rows of 1,024 places and longer: at 2,048 a place takes 9.5 ps on an H200, and
/// 10.4 in strips of twice as many.
const STRIP: u32 = 512 * 1024;

/// How the threads of a block of them lie: powers of two of threads along a row, and of rows; and how many such blocks of rows come
/// before the next plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) along: u32,
    pub(super) rows: u32,
    pub(super) strip: u32,
}

impl Shape {
    /// What was found best on an H200.
    pub(super) fn of([width, height, planes]: [u32; 3]) -> Self {
        let along = (width / 8).trailing_zeros().min(5);
        let deep = if width > 512 || planes < 4 { 1 } else { 2 };
        let rows = 8 - along - deep;
        let blocks = height.div_ceil(1 << rows);
        // planes of a strip that neighbours in Z share must stay in the L2 cache: 3 MB each here
        let most = ((STRIP / width.max(1024)) >> rows).clamp(1, blocks);
        let strip = (1..=most).rev().find(|strip| blocks.is_multiple_of(*strip)).unwrap_or(1);
        Shape { along, rows, strip }
    }

    /// As the kernels read it. Colours go up and down by turns.
    pub(super) fn packed(self, colour: usize) -> u32 {
        self.along | self.rows << 8 | self.strip << 16 | (colour as u32) << 31
    }

    /// Blocks along a row, of a strip, and along Z.
    pub(super) fn divisors(self, [width, _, planes]: [u32; 3]) -> [u32; 3] {
        let deep = 8 - self.along - self.rows;
        [(width / 8) >> self.along, self.strip, planes.div_ceil(1 << deep)]
    }

    pub(super) fn blocks(self, extents: [u32; 3]) -> u32 {
        let [across, strip, layers] = self.divisors(extents);
        across * strip * layers * (extents[1].div_ceil(1 << self.rows) / strip)
    }

    /// Blocks of both ends of a slab, each in one plane.
    pub(super) fn ends(self, side: u32) -> u32 {
        2 * ((side / 8) >> self.along) * (side >> (8 - self.along))
    }
}

/// Groups of four places on the surface of a block, as the kernel counts them, by the axes that it is cut along.
pub(super) fn on_surface([width, height, planes]: [u32; 3], [x, y, z]: [bool; 3]) -> u32 {
    let quads = width / 8;
    let sheets = if z { 2 * quads * height } else { 0 };
    let planes = planes - if z { 2 } else { 0 };
    let lines = if y { 2 * quads * planes } else { 0 };
    let rows = height - if y { 2 } else { 0 };
    sheets + lines + if x { 2 * rows * planes } else { 0 }
}
