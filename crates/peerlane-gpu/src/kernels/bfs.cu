// Breadth-first search of a Kronecker graph as Graph500 has it: making the graph, searching it, and checking the tree that a
// search found (docs/applications.md).
//
// A vertex has two numbers. Its name is what the generator calls it. Its label says where it is: vertex `name` of `parts` parts
// belongs to part name mod parts, and there it has a rank by its degree, the largest first; label = part · span + rank. So the
// vertices that almost all others are next to are together at the front, vertices without an edge at the end, and an owner's
// vertices are one stretch of every array and of every bitmap. `span` is a multiple of 128.
// An edge becomes two arcs; a loop becomes none. The arcs of a vertex are sorted roughly, towards the largest degrees first.

#include "common.cuh"

#define NONE 0xffffffffu
#define ALL 0xffffffffu

static __device__ u64 mixed(u64 h) {
    h ^= h >> 30;
    h *= 0xBF58476D1CE4E5B9ull;
    h ^= h >> 27;
    h *= 0x94D049BB133111EBull;
    return h ^ h >> 31;
}

// A permutation of the numbers below 2^scale, so that names say nothing of degrees.
static __device__ u32 scrambled(u32 v, u32 scale, u32 seed) {
    const u32 mask = ALL >> (32 - scale), half = (scale + 1) / 2;
    for (u32 round = 0; round < 3; round++) {
        v = (v + seed) * 0x9E3779B1u & mask;
        v ^= v >> half;
    }
    return v;
}

struct Edge {
    u32 from, to;
};

// Edge number i: every bit pair falls into one of four quadrants with Graph500's probabilities 0.57, 0.19, 0.19 and 0.05, in
// steps of 2^-16.
static __device__ Edge edge(u64 i, u32 scale, u32 seed) {
    Edge e = {0, 0};
    u64 state = mixed(i + ((u64)seed << 40)), drawn = 0;
    for (u32 bit = 0; bit < scale; bit++) {
        if (bit % 4 == 0) {
            state += 0x9E3779B97F4A7C15ull;
            drawn = mixed(state);
        }
        const u32 x = drawn & 0xffff;
        drawn >>= 16;
        // 0.57, 0.76 and 0.95 of 65,536
        const u32 down = x >= 49807, right = (x >= 37356 && x < 49807) || x >= 62259;
        e.from = e.from << 1 | down;
        e.to = e.to << 1 | right;
    }
    e.from = scrambled(e.from, scale, seed);
    e.to = scrambled(e.to, scale, seed);
    return e;
}

static __device__ u32 lane() { return threadIdx.x & 31; }

static __device__ u64 over_warp(u64 v) {
    for (int step = 16; step; step /= 2) v += __shfl_down_sync(ALL, v, step);
    return v;
}

// Counts the arcs of each name.
extern "C" __global__ void __launch_bounds__(256) count_arcs(u32 *degrees, u64 edges, u32 scale, u32 seed) {
    for (u64 i = thread(); i < edges; i += threads()) {
        const Edge e = edge(i, scale, seed);
        if (e.from == e.to) continue;
        atomicAdd(degrees + e.from, 1);
        atomicAdd(degrees + e.to, 1);
    }
}

// Degrees of about the same size have one class; 0 is that of the largest. 16 classes for each doubling from 64 up.
static __device__ u32 degree_class(u32 degree) {
    if (degree < 64) return 511 - degree;
    const u32 log = 31 - __clz(degree);
    return 511 - (64 + (log - 6) * 16 + (degree >> (log - 4) & 15));
}

// Goes through the `count` vertices of a part, a stretch a warp, and either counts the classes (labels = 0), or gives labels, which
// needs in `places` where each warp's vertices of each class begin. The order of equals is that of names, so that every GPU
// finds the same. Four warps a block.
extern "C" __global__ void __launch_bounds__(128)
    rank(const u32 *degrees, u32 *places, u32 *labels, u32 *names, u32 count, u32 part, u32 parts, u32 span) {
    __shared__ u32 classes[4][512];
    u32 *mine = classes[threadIdx.x / 32];
    const u32 warp = thread() / 32, warps = threads() / 32;
    const u32 each = ((count + warps - 1) / warps + 31) / 32 * 32;
    for (u32 k = lane(); k < 512; k += 32) mine[k] = labels ? places[warp * 512 + k] : 0;
    __syncwarp();
    const u64 end = min((u64)count, (u64)(warp + 1) * each);
    for (u64 first = (u64)warp * each; first < end; first += 32) {
        const u64 k = first + lane();
        const bool is = k < end;
        const u32 name = (u32)k * parts + part;
        const u32 key = is ? degree_class(degrees[name]) : 512;
        const u32 same = __match_any_sync(ALL, key);
        const u32 before = __popc(same & ((1u << lane()) - 1));
        u32 at = is ? mine[key] : 0;
        __syncwarp();
        if (is && before == 0) mine[key] = at + __popc(same);
        __syncwarp();
        if (is && labels) {
            const u32 label = part * span + at + before;
            labels[name] = label;
            names[label] = name;
        }
    }
    if (!labels)
        for (u32 k = lane(); k < 512; k += 32) places[warp * 512 + k] = mine[k];
}

// The arcs of each vertex of a part, by rank.
extern "C" __global__ void own_degrees(const u32 *degrees, const u32 *names, u32 *lengths, u32 count) {
    for (u64 k = thread(); k < count; k += threads()) lengths[k] = degrees[names[k]];
}

// Counts for each label the arcs to vertices of a part.
extern "C" __global__ void __launch_bounds__(256)
    count_into(const u32 *labels, u32 *lengths, u64 edges, u32 scale, u32 seed, u32 part, u32 span) {
    for (u64 i = thread(); i < edges; i += threads()) {
        const Edge e = edge(i, scale, seed);
        if (e.from == e.to) continue;
        const u32 a = labels[e.from], b = labels[e.to];
        if (b / span == part) atomicAdd(lengths + a, 1);
        if (a / span == part) atomicAdd(lengths + b, 1);
    }
}

// Adds up 4,096 lengths a block.
extern "C" __global__ void __launch_bounds__(256) block_sums(const u32 *lengths, u64 *sums, u32 count) {
    __shared__ u64 warps[8];
    u64 sum = 0;
    for (u32 k = threadIdx.x; k < 4096; k += 256) {
        const u64 at = (u64)blockIdx.x * 4096 + k;
        if (at < count) sum += lengths[at];
    }
    sum = over_warp(sum);
    if (lane() == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < 8; k++) sum += warps[k];
        sums[blockIdx.x] = sum;
    }
}

// Where each vertex's arcs begin, from where each block's begin. Entry k + 1 is that of vertex k, and entry 0 is 0: once the arcs
// are filled in, which moves each entry to its vertex's end, entry k is where those of k begin.
extern "C" __global__ void __launch_bounds__(256)
    begin_at(const u32 *lengths, const u64 *sums, u64 *offsets, u32 count) {
    __shared__ u64 warps[8];
    const u64 at = (u64)blockIdx.x * 4096 + threadIdx.x * 16;
    u64 sum = 0;
    for (u32 k = 0; k < 16; k++) sum += at + k < count ? lengths[at + k] : 0;
    u64 upto = sum;
    for (int step = 1; step < 32; step *= 2) {
        const u64 other = __shfl_up_sync(ALL, upto, step);
        if (lane() >= step) upto += other;
    }
    if (lane() == 31) warps[threadIdx.x / 32] = upto;
    __syncthreads();
    u64 from = sums[blockIdx.x] + upto - sum;
    for (u32 k = 0; k < threadIdx.x / 32; k++) from += warps[k];
    for (u32 k = 0; k < 16 && at + k < count; k++) {
        offsets[at + k + 1] = from;
        from += lengths[at + k];
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) offsets[0] = 0;
}

// Fills in the arcs to vertices with ranks from `least` up to, and without, `most`: those from vertices of a part (into = 0), or
// those from all vertices to the part (into = 1).
extern "C" __global__ void __launch_bounds__(256)
    fill_arcs(const u32 *labels, u64 *offsets, u32 *arcs, u64 edges, u32 scale, u32 seed, u32 part, u32 span, u32 into,
              u32 least, u32 most) {
    for (u64 i = thread(); i < edges; i += threads()) {
        const Edge e = edge(i, scale, seed);
        if (e.from == e.to) continue;
        u32 a = labels[e.from], b = labels[e.to];
        for (int way = 0; way < 2; way++) {
            const u32 owner = b / span, ranked = b - owner * span;
            const bool is = into ? owner == part : a / span == part;
            if (is && ranked >= least && ranked < most) {
                const u64 at = atomicAdd(offsets + 1 + (into ? a : a - part * span), 1ull);
                arcs[at] = b;
            }
            const u32 c = a;
            a = b;
            b = c;
        }
    }
}

// The first arc of each vertex.
extern "C" __global__ void first_arcs(const u64 *offsets, const u32 *arcs, u32 *firsts, u32 count) {
    for (u64 k = thread(); k < count; k += threads()) firsts[k] = offsets[k] < offsets[k + 1] ? arcs[offsets[k]] : NONE;
}

// What a level found: vertices, and their arcs.
struct Found {
    u64 vertices, arcs;
};

static __device__ void add_up(Found *found, u64 vertices, u64 arcs) {
    vertices = over_warp(vertices);
    arcs = over_warp(arcs);
    if (lane() == 0 && vertices) {
        atomicAdd(&found->vertices, vertices);
        atomicAdd(&found->arcs, arcs);
    }
}

// Begins a search: the root is the frontier. One thread.
extern "C" __global__ void plant(u32 *frontier, u32 *seen, u32 *parents, u32 root, u32 part, u32 span) {
    frontier[root / 32] = 1u << (root & 31);
    if (root / span != part) return;
    const u32 k = root - part * span;
    seen[k / 32] = 1u << (k & 31);
    parents[k] = root;
}

#define CHUNK 512

// Lists the arcs of the frontier in chunks: vertex and number of the chunk.
extern "C" __global__ void __launch_bounds__(256)
    list_chunks(const u32 *frontier, const u64 *offsets, u64 *chunks, u32 *listed, u32 words) {
    for (u64 w = thread(); w < words; w += threads()) {
        u32 bits = frontier[w];
        while (bits) {
            const u32 v = w * 32 + __ffs(bits) - 1;
            bits &= bits - 1;
            const u32 count = (offsets[v + 1] - offsets[v] + CHUNK - 1) / CHUNK;
            if (count == 0) continue;
            u32 at = atomicAdd(listed, count);
            for (u32 k = 0; k < count; k++) chunks[at + k] = (u64)v << 32 | k;
        }
    }
}

// A level from the frontier down: a warp a chunk. `offsets` and `arcs` are those into the part; `rows` are its vertices' own.
extern "C" __global__ void __launch_bounds__(256)
    go_down(const u64 *chunks, const u32 *listed, const u64 *offsets, const u32 *arcs, const u64 *rows, u32 *seen,
            u32 *next, u32 *parents, Found *found, u32 part, u32 span) {
    const u32 count = *listed;
    u64 vertices = 0, theirs = 0;
    for (u64 c = thread() / 32; c < count; c += threads() / 32) {
        const u32 v = chunks[c] >> 32;
        const u64 from = offsets[v] + (u64)(u32)chunks[c] * CHUNK, to = min(from + CHUNK, offsets[v + 1]);
        for (u64 a = from + lane(); a < to; a += 32) {
            const u32 k = __ldcs(arcs + a) - part * span, bit = 1u << (k & 31);
            if (__ldcg(seen + k / 32) & bit) continue;
            if (atomicOr(seen + k / 32, bit) & bit) continue;
            parents[k] = v;
            atomicOr(next + k / 32, bit);
            vertices++;
            theirs += rows[k + 1] - rows[k];
        }
    }
    add_up(found, vertices, theirs);
}

static __device__ bool within(const u32 *bitmap, u32 v) { return __ldg(bitmap + v / 32) >> (v & 31) & 1; }

// A level from what is not seen yet up: each vertex looks for a parent in the frontier, at its first arc and, only where that
// leads nowhere, at the others. A warp goes through 32 words of the part's bitmap; `words` hold all of its vertices with an arc.
extern "C" __global__ void __launch_bounds__(256)
    go_up(const u32 *frontier, const u64 *offsets, const u32 *arcs, const u32 *firsts, u32 *seen, u32 *next,
          u32 *parents, Found *found, u32 words) {
    u64 vertices = 0;
    for (u64 group = thread() / 32; group * 32 < words; group += threads() / 32) {
        const u64 w = group * 32 + lane();
        const u32 old = w < words ? seen[w] : ALL;
        u32 now = 0;
        u32 left = __ballot_sync(ALL, ~old);
        while (left) {
            u32 which[4], todo[4], first[4];
            bool hit[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                which[j] = left ? __ffs(left) - 1 : 32;
                left &= left - 1;
                const u32 other = __shfl_sync(ALL, ~old, which[j] & 31);
                todo[j] = which[j] < 32 ? other >> lane() & 1 : 0;
                first[j] = todo[j] ? __ldcs(firsts + (group * 32 + which[j]) * 32 + lane()) : NONE;
            }
#pragma unroll
            for (int j = 0; j < 4; j++) hit[j] = first[j] != NONE && within(frontier, first[j]);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const u64 v = (group * 32 + which[j]) * 32 + lane();
                bool open = todo[j] && !hit[j] && first[j] != NONE;
                u64 a = 0, end = 0;
                if (open) {
                    a = offsets[v] + 1;
                    end = offsets[v + 1];
                }
                // alone through short lists
                for (int k = 0; k < 16 && open; k++, a += 4) {
                    u32 b[4];
#pragma unroll
                    for (int l = 0; l < 4; l++) b[l] = a + l < end ? arcs[a + l] : NONE;
#pragma unroll
                    for (int l = 3; l >= 0; l--)
                        if (b[l] != NONE && within(frontier, b[l])) {
                            hit[j] = true;
                            first[j] = b[l];
                        }
                    open = !hit[j] && a + 4 < end;
                }
                // together through the rest of long ones
                for (u32 longer = __ballot_sync(ALL, open); longer; longer &= longer - 1) {
                    const int whose = __ffs(longer) - 1;
                    const u64 to = __shfl_sync(ALL, end, whose);
                    for (u64 from = __shfl_sync(ALL, a, whose); from < to; from += 32) {
                        const u32 b = from + lane() < to ? arcs[from + lane()] : NONE;
                        const u32 hits = __ballot_sync(ALL, b != NONE && within(frontier, b));
                        if (hits) {
                            const u32 parent = __shfl_sync(ALL, b, __ffs(hits) - 1);
                            if (lane() == whose) {
                                hit[j] = true;
                                first[j] = parent;
                            }
                            break;
                        }
                    }
                }
                const u32 hits = __ballot_sync(ALL, hit[j]);
                if (hit[j]) parents[v] = first[j];
                if (lane() == which[j]) now = hits;
            }
        }
        if (w < words) {
            next[w] = now;
            if (now) seen[w] = old | now;
        }
        vertices += __popc(now);
    }
    add_up(found, vertices, 0);
}

// Adds up the arcs of a part's vertices that have a parent.
extern "C" __global__ void __launch_bounds__(256)
    sum_arcs(const u32 *parents, const u64 *rows, u64 *sum, u32 count) {
    u64 arcs = 0;
    for (u64 k = thread(); k < count; k += threads())
        if (parents[k] != NONE) arcs += rows[k + 1] - rows[k];
    arcs = over_warp(arcs);
    if (lane() == 0 && arcs) atomicAdd(sum, arcs);
}

// The tree by names: the parent of each name of a part.
extern "C" __global__ void __launch_bounds__(256)
    name_parents(const u32 *labels, const u32 *names, const u32 *parents, u32 *tree, u32 count, u32 part, u32 parts,
                 u32 span, u32 connected) {
    for (u64 n = thread(); n < count; n += threads()) {
        const u32 k = __ldcs(labels + n * parts + part) - part * span;
        const u32 parent = k < connected ? parents[k] : NONE;
        __stcs(tree + n, parent == NONE ? NONE : names[parent]);
    }
}

// The place of a name in a tree of parts, `stretch` each.
static __device__ u64 place(u32 name, u32 parts, u32 stretch) { return (u64)(name % parts) * stretch + name / parts; }

// Gives the children of vertices of a level theirs; 255 is none yet. Counts them.
extern "C" __global__ void __launch_bounds__(256)
    find_levels(const u32 *tree, unsigned char *levels, u64 *counted, u32 level, u32 vertices, u32 parts, u32 stretch) {
    u64 count = 0;
    for (u64 name = thread(); name < vertices; name += threads()) {
        if (levels[name] != 255) continue;
        const u32 parent = tree[place(name, parts, stretch)];
        if (parent >= vertices || levels[parent] != level) continue;
        levels[name] = level + 1;
        count++;
    }
    count = over_warp(count);
    if (lane() == 0 && count) atomicAdd(counted, count);
}

// Compares a tree with every edge of the graph: counts edges among what the tree holds, loops apart, and edges that join levels which differ
// by more than one or one vertex in the tree to one outside; marks names whose edge to the parent exists.
extern "C" __global__ void __launch_bounds__(256)
    compare_edges(const u32 *tree, const unsigned char *levels, unsigned char *joined, u64 *counted, u64 edges, u32 scale,
                  u32 seed, u32 parts, u32 stretch) {
    u64 inside = 0, wrong = 0;
    for (u64 i = thread(); i < edges; i += threads()) {
        const Edge e = edge(i, scale, seed);
        const u32 a = levels[e.from], b = levels[e.to];
        inside += a != 255 && e.from != e.to;
        wrong += (a > b ? a - b : b - a) > 1;
        if (a != 255 && b == a + 1 && tree[place(e.to, parts, stretch)] == e.from) joined[e.to] = 1;
        if (b != 255 && a == b + 1 && tree[place(e.from, parts, stretch)] == e.to) joined[e.from] = 1;
    }
    inside = over_warp(inside);
    wrong = over_warp(wrong);
    if (lane() == 0) {
        atomicAdd(counted, inside);
        atomicAdd(counted + 1, wrong);
    }
}

// Counts vertices that have a parent, those of them without a level, and those without an edge to their parent; the root has
// itself as its parent.
extern "C" __global__ void __launch_bounds__(256)
    compare_vertices(const u32 *tree, const unsigned char *levels, const unsigned char *joined, u64 *counted, u32 root,
                     u32 vertices, u32 parts, u32 stretch) {
    u64 reached = 0, loose = 0, apart = 0;
    for (u64 name = thread(); name < vertices; name += threads()) {
        const u32 parent = tree[place(name, parts, stretch)];
        if (parent == NONE) continue;
        reached++;
        loose += levels[name] == 255;
        apart += name == root ? parent != root : !joined[name];
    }
    reached = over_warp(reached);
    loose = over_warp(loose);
    apart = over_warp(apart);
    if (lane() == 0) {
        atomicAdd(counted, reached);
        atomicAdd(counted + 1, loose);
        atomicAdd(counted + 2, apart);
    }
}
