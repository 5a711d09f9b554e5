// Over-relaxation of the three-dimensional Heisenberg spin glass, S' = 2 (S·H / H·H) H - S with H the sum of J S over the six
// neighbours, J = +1 or -1 (docs/applications.md).
//
// Places of one colour (x + y + z even or odd) have only neighbours of the other. A colour's spins lie plane by plane along Z,
// in a plane component by component, row by row; a row holds the places of that colour alone, side / 2 of them: the place with
// index i of a row is at x = 2 i + (y + z + colour) mod 2. A slab is `planes` planes of a lattice of `side` · `side` places a plane; the planes
// below its first and above its last are `below` and `above`.
// A place has a byte of couplings, a bit each where J = -1: to the neighbour at its own index of the row, at the other one,
// at y - 1, y + 1, z - 1, z + 1.

//
// A block is cut along X and Y, too, `width` by `height` places a plane. Its neighbours' faces lie apart: one below and above along Z
// like a plane, one before and behind along Y plane by plane, in a plane component by component, each half a row, and one to the
// left and to the right along X the same with half a column: of the places of a colour that is every second row.

#include "common.cuh"

// `colour` is that of the block's own first place.
struct Block {
    u32 width, height, planes, colour;
};

// Faces of the neighbours of a block: to the left and right, before and behind; 0 where its own places lie there.
struct Faces {
    const float *left, *right, *before, *behind;
};

struct Spins {
    float4 x, y, z;
};

static __device__ Spins load(const float *at, u64 component) {
    return {*(const float4 *)at, *(const float4 *)(at + component), *(const float4 *)(at + 2 * component)};
}

static __device__ void store(float *at, u64 component, const Spins &spins) {
    *(float4 *)at = spins.x;
    *(float4 *)(at + component) = spins.y;
    *(float4 *)(at + 2 * component) = spins.z;
}

// adds v, its sign turned where the bit of its byte is set
static __device__ float turned(float v, u32 bytes, int bit) {
    return __uint_as_float(__float_as_uint(v) ^ (bytes << (31 - bit) & 0x80000000u));
}

static __device__ void add(float4 &field, const float4 &v, u32 bytes, int bit) {
    field.x += turned(v.x, bytes, bit);
    field.y += turned(v.y, bytes, bit + 8);
    field.z += turned(v.z, bytes, bit + 16);
    field.w += turned(v.w, bytes, bit + 24);
}

static __device__ void add(Spins &field, const Spins &v, u32 bytes, int bit) {
    add(field.x, v.x, bytes, bit);
    add(field.y, v.y, bytes, bit);
    add(field.z, v.z, bytes, bit);
}

static __device__ float4 next(const float4 &v, float after) { return make_float4(v.y, v.z, v.w, after); }
static __device__ float4 previous(const float4 &v, float before) { return make_float4(before, v.x, v.y, v.z); }

// The field at four places next to each other in a row: i is the first one's index. Of a block that is `cut` along X or Y faces
// are looked at, too.
template <bool cut>
static __device__ Spins field_at(const float *other, const float *below, const float *above, const Faces &faces, u32 couplings,
                                 const Block &block, u32 i, u32 y, u32 z) {
    const u32 half = block.width / 2;
    const u64 component = (u64)block.height * half, plane = 3 * component;
    const float *row = other + z * plane + (u64)y * half;
    const u64 within = (u64)y * half + i;
    const u32 down = y == 0 ? block.height - 1 : y - 1, up = y + 1 == block.height ? 0 : y + 1;
    const bool odd = (y + z + block.colour) & 1;
    Spins field = {};
    Spins here = load(row + i, component);
    add(field, here, couplings, 0);
    const float *beside = row + (odd ? (i + 4 == half ? 0 : i + 4) : (i == 0 ? half - 1 : i - 1));
    u64 apart = component;
    if (cut && faces.left && (odd ? i + 4 == half : i == 0)) {
        apart = block.height / 2;
        beside = (odd ? faces.right : faces.left) + z * 3 * apart + y / 2;
    }
    const float x = beside[0], py = beside[apart], pz = beside[2 * apart];
    Spins shifted = odd ? Spins{next(here.x, x), next(here.y, py), next(here.z, pz)}
                        : Spins{previous(here.x, x), previous(here.y, py), previous(here.z, pz)};
    add(field, shifted, couplings, 1);
    const bool first = cut && faces.before && y == 0, last = cut && faces.before && y + 1 == block.height;
    const u64 line = (u64)z * 3 * half + i;
    const float *lower = first ? faces.before + line : other + z * plane + (u64)down * half + i;
    const float *upper = last ? faces.behind + line : other + z * plane + (u64)up * half + i;
    add(field, load(lower, first ? half : component), couplings, 2);
    add(field, load(upper, last ? half : component), couplings, 3);
    add(field, load(z == 0 ? below + within : other + (z - 1) * plane + within, component), couplings, 4);
    add(field, load(z + 1 == block.planes ? above + within : other + (z + 1) * plane + within, component), couplings, 5);
    return field;
}

// The reflected spin. Its length is brought back to 1 by a step of Newton's method, so that it does not drift.
static __device__ void reflect(float &x, float &y, float &z, float hx, float hy, float hz) {
    float hh = hx * hx + hy * hy + hz * hz;
    // without a field every spin has the same energy
    if (hh < 1e-12f) return;
    float f = __fdividef(2.0f * (x * hx + y * hy + z * hz), hh);
    float nx = f * hx - x, ny = f * hy - y, nz = f * hz - z;
    float scale = 1.5f - 0.5f * (nx * nx + ny * ny + nz * nz);
    x = nx * scale;
    y = ny * scale;
    z = nz * scale;
}

static __device__ void reflect(Spins &spins, const Spins &field) {
    reflect(spins.x.x, spins.y.x, spins.z.x, field.x.x, field.y.x, field.z.x);
    reflect(spins.x.y, spins.y.y, spins.z.y, field.x.y, field.y.y, field.z.y);
    reflect(spins.x.z, spins.y.z, spins.z.z, field.x.z, field.y.z, field.z.z);
    reflect(spins.x.w, spins.y.w, spins.z.w, field.x.w, field.y.w, field.z.w);
}

// Waits until a word is at least `value`, counted round; gives up after ten seconds, and then what is computed is wrong, which a
// comparison with the lattice in one piece shows.
static __device__ void await(const u32 *word, u32 value) {
    const u64 deadline = now_ns() + 10000000000ull;
    while ((int)(receive(word, 1) - value) < 0)
        if (now_ns() > deadline) return;
}

// One half-sweep: updates the places of `colour` in `count` planes from plane `first` on, and with the blocks before them, `ends` in
// number, in the slab's first and last plane. What is updated in these is also stored to `to_below` and `to_above`, where these are
// not 0: the neighbours' copies of these planes.
// Each end waits until the plane beside it has come: until its word of the two at `arrived` is `awaited`; where `arrived` is 0 it
// does not wait. Once all blocks of an end are done, which the two words at `done` count, `step` is written to `tell_below` or
// `tell_above`, where these are not 0. Blocks start in order, so that the ends are on their way while the rest is updated.
// `shape` is how the 256 threads of a block lie, and how the blocks: 2^(bits 0-7) threads along a row, each with four places;
// 2^(bits 8-15) rows; the rest along Z. Blocks go along a row, over (bits 16-30) blocks of rows, along Z, and then to the next
// such strip: what neighbours share is then still in a cache. With bit 31 they go down Z: after a half-sweep that went up, what it
// wrote last is still there. The last three are 2^32 divided by the blocks of a row, by those
// of a strip, and by those along Z, rounded up: to divide by what the compiler does not know takes a block longer than to ask for
// its first words.
extern "C" __global__ void __launch_bounds__(256)
    over_relax(float *own, const float *other, const float *below, const float *above, const u32 *couplings,
               float *to_below, float *to_above, const u32 *arrived, u32 *done, u32 *tell_below, u32 *tell_above, u32 side,
               u32 planes, u32 first, u32 count, u32 colour, u32 shape, u32 ends, u32 awaited, u32 step, u64 by_across,
               u64 by_strip, u64 by_layers) {
    const u32 half = side / 2, along = shape & 0xff, rows = shape >> 8 & 0xff, strip = shape >> 16 & 0x7fff;
    const u32 across = half / 4 >> along;
    const bool end = blockIdx.x < ends;
    u32 column, y, z;
    if (end) {
        // by turns of the first plane and the last; a block is in one plane
        const u32 n = blockIdx.x >> 1, row = n / across;
        column = n - row * across;
        y = (row << (8 - along)) + (threadIdx.x >> along);
        z = blockIdx.x & 1 ? planes - 1 : 0;
        if (arrived && threadIdx.x == 0) await(arrived + (blockIdx.x & 1), awaited);
        __syncthreads();
    } else {
        const u32 block = blockIdx.x - ends, deep = 8 - along - rows, layers = (count + (1u << deep) - 1) >> deep;
        const u32 line = block * by_across >> 32, sheet = line * by_strip >> 32, slice = sheet * by_layers >> 32;
        const u32 up = sheet - slice * layers, brick = shape >> 31 ? layers - 1 - up : up;
        const u32 layer = (brick << deep) + (threadIdx.x >> (along + rows));
        column = block - line * across;
        y = (slice * strip + line - sheet * strip << rows) + (threadIdx.x >> along & ((1u << rows) - 1));
        z = first + layer;
        if (layer >= count) return;
    }
    const u32 i = 4 * ((column << along) + (threadIdx.x & ((1u << along) - 1)));
    const Block slab = {side, side, planes, colour};
    const u64 component = (u64)side * half, within = (u64)y * half + i, at = z * 3 * component + within;
    const u32 signs = __ldcs(couplings + (z * component + within) / 4);
    Spins spins = load(own + at, component);
    reflect(spins, field_at<false>(other, below, above, Faces{}, signs, slab, i, y, z));
    store(own + at, component, spins);
    if (to_below && z == 0) store(to_below + within, component, spins);
    if (to_above && z + 1 == planes) store(to_above + within, component, spins);
    if (!end) return;
    u32 *tell = z == 0 ? tell_below : tell_above;
    if (!tell) return;
    __syncthreads();
    if (threadIdx.x != 0) return;
    // what the block's threads stored comes before the count, and what all blocks stored before the word
    __threadfence_system();
    if (atomicAdd(done + (z != 0), 1) != ends / 2 - 1) return;
    done[z != 0] = 0;
    __threadfence_system();
    send(tell, step, 1);
}

// The four places of a block's surface with number n: those of the first and last plane where it is cut along Z, then of what is left
// those of the first and last row of a plane where it is cut along Y, then the first and last four of a row where along X.
static __device__ bool on_surface(u32 n, const Block &block, bool cut_x, bool cut_y, bool cut_z, u32 &quad, u32 &y, u32 &z) {
    const u32 quads = block.width / 8, sheet = quads * block.height;
    if (cut_z) {
        if (n < 2 * sheet) {
            z = n < sheet ? 0 : block.planes - 1;
            n -= n < sheet ? 0 : sheet;
            y = n / quads;
            quad = n - y * quads;
            return true;
        }
        n -= 2 * sheet;
    }
    const u32 planes = block.planes - (cut_z ? 2 : 0), rows = block.height - (cut_y ? 2 : 0);
    if (cut_y) {
        const u32 side = quads * planes;
        if (n < 2 * side) {
            y = n < side ? 0 : block.height - 1;
            n -= n < side ? 0 : side;
            z = n / quads + cut_z;
            quad = n % quads;
            return true;
        }
        n -= 2 * side;
    }
    const u32 side = rows * planes;
    if (!cut_x || n >= 2 * side) return false;
    quad = n < side ? 0 : quads - 1;
    n -= n < side ? 0 : side;
    z = n / rows + cut_z;
    y = n % rows + cut_y;
    return true;
}

// One half-sweep of a block. What over_relax has of both ends is here of all faces, in the order left, right, before, behind, below,
// above: their neighbours' places, where its own are stored, too, the words at `arrived`, and those that tell. `cut` has a bit for
// each axis along which the block is cut; with bit 3 nothing is updated, and only stored where `to_…` says.
// The first `surface` blocks update the surface, once all neighbours' faces have come, and the others the rest; where that is 0,
// all is updated alike. The word at `done` counts the first ones.
extern "C" __global__ void __launch_bounds__(256, 4)
    relax_block(float *own, const float *other, const u32 *couplings, const float *left, const float *right, const float *before,
                const float *behind, const float *below, const float *above, float *to_left, float *to_right, float *to_before,
                float *to_behind, float *to_below, float *to_above, const u32 *arrived, u32 *done, u32 *tell_left, u32 *tell_right,
                u32 *tell_before, u32 *tell_behind, u32 *tell_below, u32 *tell_above, u32 width, u32 height, u32 planes,
                u32 colour, u32 shape, u32 surface, u32 cut, u32 awaited, u32 step, u64 by_across, u64 by_strip, u64 by_layers) {
    const Block block = {width, height, planes, colour};
    const u32 half = width / 2, quads = half / 4, along = shape & 0xff, rows = shape >> 8 & 0xff, strip = shape >> 16 & 0x7fff;
    const u32 across = quads >> along;
    const bool first = blockIdx.x < surface, cut_x = cut & 1, cut_y = cut >> 1 & 1, cut_z = cut >> 2 & 1;
    u32 quad, y, z;
    bool mine;
    if (first) {
        mine = on_surface(blockIdx.x * blockDim.x + threadIdx.x, block, cut_x, cut_y, cut_z, quad, y, z);
        if (arrived && threadIdx.x < 6 && cut >> threadIdx.x / 2 & 1) await(arrived + threadIdx.x, awaited);
        __syncthreads();
    } else {
        const u32 number = blockIdx.x - surface, deep = 8 - along - rows, layers = (planes + (1u << deep) - 1) >> deep;
        const u32 line = number * by_across >> 32, sheet = line * by_strip >> 32, slice = sheet * by_layers >> 32;
        const u32 up = sheet - slice * layers, brick = shape >> 31 ? layers - 1 - up : up;
        z = (brick << deep) + (threadIdx.x >> (along + rows));
        y = (slice * strip + line - sheet * strip << rows) + (threadIdx.x >> along & ((1u << rows) - 1));
        quad = (number - line * across << along) + (threadIdx.x & ((1u << along) - 1));
        mine = z < planes && y < height;
        if (surface) {
            mine = mine && !(cut_x && (quad == 0 || quad + 1 == quads)) && !(cut_y && (y == 0 || y + 1 == height)) &&
                   !(cut_z && (z == 0 || z + 1 == planes));
        }
    }
    if (mine) {
        const u32 i = 4 * quad;
        const u64 component = (u64)height * half, within = (u64)y * half + i, at = z * 3 * component + within;
        Spins spins;
        if (cut & 8) {
            spins = load(own + at, component);
        } else {
            const u32 signs = __ldcs(couplings + (z * component + within) / 4);
            const Faces faces = {left, right, before, behind};
            const Spins field = field_at<true>(other, below, above, faces, signs, block, i, y, z);
            spins = load(own + at, component);
            reflect(spins, field);
            store(own + at, component, spins);
        }
        if (to_below && z == 0) store(to_below + within, component, spins);
        if (to_above && z + 1 == planes) store(to_above + within, component, spins);
        const u64 line = (u64)z * 3 * half + i;
        if (to_before && y == 0) store(to_before + line, half, spins);
        if (to_behind && y + 1 == height) store(to_behind + line, half, spins);
        const bool odd = (y + z + colour) & 1;
        const u64 column = height / 2, place = z * 3 * column + y / 2;
        if (to_left && quad == 0 && !odd) {
            to_left[place] = spins.x.x;
            to_left[place + column] = spins.y.x;
            to_left[place + 2 * column] = spins.z.x;
        }
        if (to_right && quad + 1 == quads && odd) {
            to_right[place] = spins.x.w;
            to_right[place + column] = spins.y.w;
            to_right[place + 2 * column] = spins.z.w;
        }
    }
    if (!first || !arrived) return;
    __syncthreads();
    if (threadIdx.x != 0) return;
    // as in over_relax
    __threadfence_system();
    if (atomicAdd(done, 1) != surface - 1) return;
    *done = 0;
    __threadfence_system();
    if (tell_left) send(tell_left, step, 1);
    if (tell_right) send(tell_right, step, 1);
    if (tell_before) send(tell_before, step, 1);
    if (tell_behind) send(tell_behind, step, 1);
    if (tell_below) send(tell_below, step, 1);
    if (tell_above) send(tell_above, step, 1);
}

static __device__ u64 mixed(u64 h) {
    h ^= h >> 31;
    h *= 0xBF58476D1CE4E5B9ull;
    h ^= h >> 29;
    h *= 0x94D049BB133111EBull;
    return h ^ h >> 32;
}

// Where a block begins in the lattice, and how many places this has along each axis.
struct Cut {
    u32 x, y, z, across, down, deep;
};

// The place of the lattice's `colour` with number n of a block.
static __device__ void place(u64 n, u32 width, u32 height, const Cut &cut, u32 colour, u32 &x, u32 &y, u32 &z) {
    const u32 half = width / 2;
    u32 i = n % half;
    y = n / half % height + cut.y;
    z = (u32)(n / half / height) + cut.z;
    // blocks begin at even x
    x = cut.x + 2 * i + (y + z + colour & 1);
}

// Draws directions evenly over the sphere, the same for a place however the lattice is cut.
extern "C" __global__ void draw_spins(float *own, u32 width, u32 height, u32 planes, u32 from_x, u32 from_y, u32 from_z, u32 across,
                                      u32 down, u32 deep, u32 colour, u32 seed) {
    const Cut cut = {from_x, from_y, from_z, across, down, deep};
    const u64 component = (u64)width * height / 2;
    for (u64 n = thread(); n < component * planes; n += threads()) {
        u32 x, y, z;
        place(n, width, height, cut, colour, x, y, z);
        u64 h = mixed((((u64)z * down + y) * across + x + 1) * 0x9E3779B97F4A7C15ull + seed);
        float up = 2.0f * ((h & 0xffffff) + 0.5f) / 16777216.0f - 1.0f;
        float angle = 6.28318531f * ((h >> 24 & 0xffffff) + 0.5f) / 16777216.0f, r = sqrtf(1.0f - up * up);
        float *at = own + n / component * 3 * component + n % component;
        float sx = r * cosf(angle), sy = r * sinf(angle);
        float scale = 1.5f - 0.5f * (sx * sx + sy * sy + up * up);
        at[0] = sx * scale;
        at[component] = sy * scale;
        at[2 * component] = up * scale;
    }
}

// Whether J = -1 for the bond of a place with the next one along an axis.
static __device__ u32 coupling(const Cut &cut, u32 x, u32 y, u32 z, u32 axis, u32 seed) {
    u64 place = ((u64)z * cut.down + y) * cut.across + x;
    return mixed((3 * place + axis + 1) * 0xD1B54A32D192ED03ull + seed) >> 63;
}

// Draws the couplings of a colour's places; both ends of a bond draw the same.
extern "C" __global__ void draw_couplings(unsigned char *couplings, u32 width, u32 height, u32 planes, u32 from_x, u32 from_y,
                                          u32 from_z, u32 across, u32 down, u32 deep, u32 colour, u32 seed) {
    const Cut cut = {from_x, from_y, from_z, across, down, deep};
    const u64 component = (u64)width * height / 2;
    for (u64 n = thread(); n < component * planes; n += threads()) {
        u32 x, y, z;
        place(n, width, height, cut, colour, x, y, z);
        u32 left = coupling(cut, (x ? x : across) - 1, y, z, 0, seed), right = coupling(cut, x, y, z, 0, seed);
        u32 same = x & 1 ? left : right, far = x & 1 ? right : left;
        couplings[n] = same | far << 1 | coupling(cut, x, (y ? y : down) - 1, z, 1, seed) << 2 |
                       coupling(cut, x, y, z, 1, seed) << 3 | coupling(cut, x, y, (z ? z : deep) - 1, 2, seed) << 4 |
                       coupling(cut, x, y, z, 2, seed) << 5;
    }
}

// Adds up a colour's places of a block into `sums`: S·H in units of 2^-28, as a whole
// number so that the order does not matter; a sum over all bits, each place's with its number in the lattice; and, as the bits of a
// float, the most that a spin's length differs from 1.
extern "C" __global__ void __launch_bounds__(256)
    inspect(const float *own, const float *other, const u32 *couplings, const float *left, const float *right, const float *before,
            const float *behind, const float *below, const float *above, u64 *sums, u32 width, u32 height, u32 planes, u32 from_x,
            u32 from_y, u32 from_z, u32 across, u32 down, u32 colour) {
    const Block block = {width, height, planes, (colour + from_y + from_z) & 1};
    const Faces faces = {left, right, before, behind};
    const u32 half = width / 2;
    const u64 component = (u64)height * half;
    long long energy = 0;
    u64 bits = 0;
    float worst = 0;
    for (u64 n = 4 * thread(); n < component * planes; n += 4 * threads()) {
        const u32 i = n % half, y = n / half % height, z = n / component;
        const u64 at = z * 3 * component + n % component;
        const u64 number = (((u64)z + from_z) * down + y + from_y) * (across / 2) + from_x / 2 + i;
        const Spins spins = load(own + at, component);
        const Spins field = field_at<true>(other, below, above, faces, couplings[n / 4], block, i, y, z);
        const float s[3][4] = {{spins.x.x, spins.x.y, spins.x.z, spins.x.w},
                               {spins.y.x, spins.y.y, spins.y.z, spins.y.w},
                               {spins.z.x, spins.z.y, spins.z.z, spins.z.w}};
        const float h[3][4] = {{field.x.x, field.x.y, field.x.z, field.x.w},
                               {field.y.x, field.y.y, field.y.z, field.y.w},
                               {field.z.x, field.z.y, field.z.z, field.z.w}};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            double dot = 0, length = 0;
#pragma unroll
            for (int c = 0; c < 3; c++) {
                dot += (double)s[c][k] * h[c][k];
                length += (double)s[c][k] * s[c][k];
                bits += mixed((3 * (number + k) + c + 1) * 0x9E3779B97F4A7C15ull + __float_as_uint(s[c][k]));
            }
            energy += (long long)(dot * 268435456.0);
            worst = fmaxf(worst, (float)fabs(sqrt(length) - 1));
        }
    }
    // a block's threads together first: `sums` is in host memory, where each addition takes a microsecond
    __shared__ u64 added[2];
    __shared__ u32 most;
    if (threadIdx.x == 0) added[0] = added[1] = most = 0;
    __syncthreads();
    atomicAdd(added, (u64)energy);
    atomicAdd(added + 1, bits);
    // of numbers that are not negative the bits are in order, too
    atomicMax(&most, __float_as_uint(worst));
    __syncthreads();
    if (threadIdx.x != 0) return;
    atomicAdd(sums, added[0]);
    atomicAdd(sums + 1, added[1]);
    atomicMax((u32 *)(sums + 2), most);
}
