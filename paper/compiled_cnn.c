/* The two convolution blocks of the BatchBALD CNN on 28 x 28 images: convolution, dropout, 2 x 2 max-pooling, ReLU.
 *
 * All images are [height][width][channels]. Dropout comes as random words, one per output: byte k of a word is for
 * activation k of the window, which is kept if the byte is at least `lowest`, and then multiplied by `scale`. NULL drops nothing,
 * and goes with a scale of 1.
 * `best` says which of the four activations of a window was the largest, or -1 where nothing above zero was left: it is all
 * that the way back needs, since an activation above zero was kept.
 *
 * Both convolutions are made by Winograd's minimal filtering (Lavin and Gray 2016), whose filters come transformed. The first,
 * of one channel, goes along the rows, F(4, 5): 8 values of the input and of a row of a filter are multiplied and transformed
 * back to 4 outputs, with two fifths of the multiplications. The second, 32 channels of 12 x 12 to 64 of 8 x 8, is F(4 x 4, 5 x 5):
 * 8 x 8 patches, multiplied as 64 small matrix products, with a sixth of the multiplications. On the way back at most one
 * activation of a window has a gradient, so the products of the second block are written out for these alone. Winograd's
 * transforms would be as fast there, but they leave a rounding error where a gradient is exactly zero, and Adam, which
 * divides a gradient by its usual size, makes a whole step of it.
 *
 * No sum runs over images except those of the gradients of weights, so what an image gives does not depend on which others
 * it is computed with.
 */
#include <string.h>

/* Channels at a time, and how many sums of two such vectors stay in registers. */
#ifdef __AVX512F__
enum { WIDE = 16, SUMS = 12 };
#else
enum { WIDE = 8, SUMS = 6 };
#endif
typedef float floats __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));
typedef int ints __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));
#define LOAD(p) (*(const floats *)(p))
#define STORE(p, v) (*(floats *)(p) = (v))
#define INLINE static inline __attribute__((always_inline))

enum {
    SIDE = 28, OUT1 = 24, HALF1 = 12, C1 = 32, /* the first block */
    OUT2 = 8, HALF2 = 4, C2 = 64,              /* the second */
    PARTS = C1 / WIDE,                         /* vectors per pixel */
    K = 5, PATCH = 8, POINTS = PATCH * PATCH, TILES1 = OUT1 / 4,
    TILES = 4, TOGETHER = 6, ROWS = TILES * TOGETHER /* patches per image, images and patches at a time */
};

struct dropout {
    const int *words;
    int lowest;
    float scale;
};

/* Random words by xoshiro128++ (Blackman and Vigna 2021), one generator per lane, started by splitmix64; `count` is a multiple
 * of WIDE. */
void random_words(unsigned long seed, long count, int *words) {
    typedef unsigned int word __attribute__((vector_size(4 * WIDE)));
    word s[4];
    for (int k = 0; k < 4; k++)
        for (int lane = 0; lane < WIDE; lane++) {
            unsigned long z = seed += 0x9e3779b97f4a7c15ul;
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ul;
            z = (z ^ (z >> 27)) * 0x94d049bb133111ebul;
            s[k][lane] = (unsigned int)((z ^ (z >> 31)) >> 32);
        }
#define ROTATED(x, k) (((x) << (k)) | ((x) >> (32 - (k))))
    for (long at = 0; at < count; at += WIDE) {
        word sum = s[0] + s[3], shifted = s[1] << 9;
        *(ints *)(words + at) = (ints)(ROTATED(sum, 7) + s[0]);
        s[2] ^= s[0], s[3] ^= s[1], s[1] ^= s[2], s[0] ^= s[3], s[2] ^= shifted;
        s[3] = ROTATED(s[3], 11);
    }
}

/* Numbers of `yes` where the mask is set, of `no` elsewhere. */
INLINE ints choose(ints mask, ints yes, ints no) { return (mask & yes) | (~mask & no); }

/* The largest of each window, after dropout; two rows of activations make one row of outputs. */
INLINE void pool(const float *rows, const struct dropout *drop, int width, int channels, long window, float *out, int *best) {
    for (int x = 0; x < width / 2; x++)
        for (int c = 0; c < channels; c += WIDE) {
            long to = window + x * channels + c;
            floats top = {0};
            ints at = (ints){0} - 1, word = drop->words ? *(const ints *)(drop->words + to) : (ints){0};
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) {
                floats value = LOAD(rows + ((k >> 1) * width + 2 * x + (k & 1)) * channels + c);
                ints larger = value > top;
                if (drop->words) larger &= ((word >> 8 * k) & 255) >= drop->lowest;
                at = choose(larger, (ints){0} + k, at);
                top = (floats)choose(larger, (ints)value, (ints)top);
            }
            STORE(out + to, top * drop->scale);
            if (best) *(ints *)(best + to) = at;
        }
}

/* Winograd's matrices for the points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity; see compiled_cnn.py, which has the filters'. Of
 * two points of opposite sign, one has the sum of the even and the odd terms, and the other their difference. */
static const float INPUT[8][8] = INPUT_MATRIX;   /* of patches of the input */
static const float INPUT_BY_COLUMN[8][8] = INPUT_TRANSPOSED;
static const float OUTPUT[4][8] = OUTPUT_MATRIX; /* of products to outputs */

/* to[i] = sum over k of INPUT[i][k] * from[k], for WIDE channels. */
INLINE void to_points(const float *from, long step_from, float *to, long step_to) {
    floats in[8], first = {0}, last = {0};
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) in[k] = LOAD(from + k * step_from);
#pragma GCC unroll 4
    for (int k = 0; k < 8; k += 2) first += INPUT[0][k] * in[k], last += INPUT[7][k + 1] * in[k + 1];
    STORE(to, first);
    STORE(to + 7 * step_to, last);
#pragma GCC unroll 3
    for (int i = 1; i < 7; i += 2) {
        floats odd = INPUT[i][1] * in[1], even = INPUT[i][2] * in[2];
#pragma GCC unroll 2
        for (int k = 3; k < 7; k += 2) odd += INPUT[i][k] * in[k], even += INPUT[i][k + 1] * in[k + 1];
        STORE(to + i * step_to, even + odd);
        STORE(to + (i + 1) * step_to, even - odd);
    }
}

/* to[i] = start + sum over k of OUTPUT[i][k] * from[k], for WIDE channels. */
INLINE void to_outputs(const float *from, long step_from, float *to, long step_to, floats start) {
    floats in[8], sums[3], differences[3];
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) in[k] = LOAD(from + k * step_from);
#pragma GCC unroll 3
    for (int j = 0; j < 3; j++) {
        sums[j] = in[2 * j + 1] + in[2 * j + 2];
        differences[j] = in[2 * j + 1] - in[2 * j + 2];
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        floats sum = start;
        if (i == 0) sum += in[0];
        if (i == 3) sum += in[7];
#pragma GCC unroll 3
        for (int j = 0; j < 3; j++) sum += OUTPUT[i][2 * j + 1] * (i % 2 ? differences[j] : sums[j]);
        STORE(to + i * step_to, sum);
    }
}

/* ---- the first block ---- */

/* x [28][28] -> points [28][6][8]: each row in 6 overlapping pieces of 8, transformed. */
INLINE void first_points(const float *x, float *points) {
    for (int y = 0; y < SIDE; y++)
        for (int tile = 0; tile < TILES1; tile++) {
            const float *piece = x + y * SIDE + 4 * tile;
            float sum[PATCH] = {0};
#pragma GCC unroll 8
            for (int k = 0; k < PATCH; k++)
#pragma GCC unroll 8
                for (int i = 0; i < PATCH; i++) sum[i] += INPUT_BY_COLUMN[k][i] * piece[k];
            memcpy(points + (y * TILES1 + tile) * PATCH, sum, sizeof sum);
        }
}

/* points [5 and more][6][8], filters [8][5][32] -> row [24][32] */
INLINE void first_row(const float *points, const float *filters, const float *bias, float *row) {
    float products[PATCH * TILES1 * C1];
    for (int p = 0; p < PATCH; p++)
        for (int c = 0; c < C1; c += 2 * WIDE) {
            floats left[K], right[K];
#pragma GCC unroll 5
            for (int a = 0; a < K; a++) {
                left[a] = LOAD(filters + (p * K + a) * C1 + c);
                right[a] = LOAD(filters + (p * K + a) * C1 + c + WIDE);
            }
#pragma GCC unroll 6
            for (int tile = 0; tile < TILES1; tile++) {
                floats sum[2] = {0};
#pragma GCC unroll 5
                for (int a = 0; a < K; a++) {
                    float value = points[(a * TILES1 + tile) * PATCH + p];
                    sum[0] += value * left[a], sum[1] += value * right[a];
                }
                STORE(products + (p * TILES1 + tile) * C1 + c, sum[0]);
                STORE(products + (p * TILES1 + tile) * C1 + c + WIDE, sum[1]);
            }
        }
    for (int tile = 0; tile < TILES1; tile++)
        for (int c = 0; c < C1; c += WIDE)
            to_outputs(products + tile * C1 + c, TILES1 * C1, row + 4 * tile * C1 + c, C1, LOAD(bias + c));
}

/* x [n][28][28], filters [8 points][5][32], bias [32], words [n][12][12][32] -> out, best (or NULL) [n][12][12][32] */
void first_forward(int n, const float *x, const float *filters, const float *bias, const int *words, int lowest, float scale,
                   float *out, int *best) {
    const struct dropout drop = {words, lowest, scale};
    float rows[2 * OUT1 * C1], points[SIDE * TILES1 * PATCH];
    for (int i = 0; i < n; i++, x += SIDE * SIDE) {
        first_points(x, points);
        for (int y = 0; y < OUT1; y += 2) {
            first_row(points + y * TILES1 * PATCH, filters, bias, rows);
            first_row(points + (y + 1) * TILES1 * PATCH, filters, bias, rows + OUT1 * C1);
            pool(rows, &drop, OUT1, C1, ((long)i * HALF1 + y / 2) * HALF1 * C1, out, best);
        }
    }
}

/* Some rows of the gradient of the filters, from row `a` of their taps on. The largest activation of a window is elsewhere in
 * each channel, so each channel takes its own pixel out of two rows of the image. */
INLINE void first_taps(const float *x, const float *dout, const int *best, float scale, int a, int rows, float *dweight) {
    floats sum[3][K];
#pragma GCC unroll 3
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 5
        for (int b = 0; b < K; b++) sum[r][b] = LOAD(dweight + ((a + r) * K + b) * C1);
    for (int y = 0; y < HALF1; y++)
        for (int at = 0; at < HALF1; at++) {
            ints which = *(const ints *)(best + (y * HALF1 + at) * C1);
            floats grad = (floats)((ints)(LOAD(dout + (y * HALF1 + at) * C1) * scale) & (which >= 0));
            ints from = (which >> 1) * WIDE + (which & 1);
            const float *pixels = x + (2 * y + a) * SIDE + 2 * at;
#pragma GCC unroll 3
            for (int r = 0; r < rows; r++)
#pragma GCC unroll 5
                for (int b = 0; b < K; b++)
                    sum[r][b] += grad * __builtin_shuffle(LOAD(pixels + r * SIDE), LOAD(pixels + (r + 1) * SIDE), from + b);
        }
#pragma GCC unroll 3
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 5
        for (int b = 0; b < K; b++) STORE(dweight + ((a + r) * K + b) * C1, sum[r][b]);
}

/* Adds to dweight [25][32] and dbias [32]. */
void first_backward(int n, const float *x, float scale, const float *dout, const int *best, float *dweight, float *dbias) {
    float image[SIDE * SIDE + WIDE] = {0}; /* vectors reach beyond the last pixel */
    for (int i = 0; i < n; i++, x += SIDE * SIDE, dout += HALF1 * HALF1 * C1, best += HALF1 * HALF1 * C1) {
        memcpy(image, x, sizeof(float) * SIDE * SIDE);
        for (int c = 0; c < C1; c += WIDE) {
            floats sum = LOAD(dbias + c);
            for (int at = c; at < HALF1 * HALF1 * C1; at += C1)
                sum += (floats)((ints)(LOAD(dout + at) * scale) & (*(const ints *)(best + at) >= 0));
            STORE(dbias + c, sum);
            first_taps(image, dout + c, best + c, scale, 0, 3, dweight + c);
            first_taps(image, dout + c, best + c, scale, 3, 2, dweight + c);
        }
    }
}

/* ---- the second block ---- */

/* c [24][2 * WIDE] = a [24][32] b [32][2 * WIDE of 64] */
INLINE void product(const float *a, const float *b, float *c) {
    for (int m = 0; m < ROWS; m += SUMS) {
        floats sum[SUMS][2] = {0};
        for (int l = 0; l < C1; l++) {
            floats left = LOAD(b + l * C2), right = LOAD(b + l * C2 + WIDE);
#pragma GCC unroll 12
            for (int r = 0; r < SUMS; r++) {
                float factor = a[(m + r) * C1 + l];
                sum[r][0] += factor * left, sum[r][1] += factor * right;
            }
        }
#pragma GCC unroll 12
        for (int r = 0; r < SUMS; r++) {
            STORE(c + (m + r) * 2 * WIDE, sum[r][0]);
            STORE(c + (m + r) * 2 * WIDE + WIDE, sum[r][1]);
        }
    }
}

/* Where a patch of an image begins, and where its outputs do. */
#define PATCH_AT(tile) (((tile) / 2 * 4 * HALF1 + (tile) % 2 * 4) * C1)
#define OUTPUT_AT(tile) (((tile) / 2 * 4 * OUT2 + (tile) % 2 * 4) * C2)

/* x [n][12][12][32], filters [64 points][32][64], bias [64], words [n][4][4][64] -> out, best (or NULL) [n][4][4][64] */
void second_forward(int n, const float *x, const float *filters, const float *bias, const int *words, int lowest, float scale,
                    float *out, int *best) {
    const struct dropout drop = {words, lowest, scale};
    static __thread float points[POINTS * ROWS * C1], products[POINTS * ROWS * 2 * WIDE], outputs[TOGETHER * OUT2 * OUT2 * C2];
    float half[PATCH * PATCH * WIDE];
    for (int begin = 0; begin < n; begin += TOGETHER) {
        int count = n - begin < TOGETHER ? n - begin : TOGETHER;
        for (int row = 0; row < count * TILES; row++)
            for (int c = 0; c < C1; c += WIDE) {
                const float *patch = x + (long)(begin + row / TILES) * HALF1 * HALF1 * C1 + PATCH_AT(row % TILES) + c;
                for (int j = 0; j < PATCH; j++) to_points(patch + j * C1, HALF1 * C1, half + j * WIDE, PATCH * WIDE);
                for (int i = 0; i < PATCH; i++)
                    to_points(half + i * PATCH * WIDE, WIDE, points + ((long)i * PATCH * ROWS + row) * C1 + c, ROWS * C1);
            }
        for (int c = 0; c < C2; c += 2 * WIDE) { /* some output channels at a time: what they need stays in the second cache */
            for (int p = 0; p < POINTS; p++)
                product(points + p * ROWS * C1, filters + p * C1 * C2 + c, products + p * ROWS * 2 * WIDE);
            for (int row = 0; row < count * TILES; row++)
                for (int part = 0; part < 2 * WIDE; part += WIDE) {
                    const float *from = products + row * 2 * WIDE + part;
                    float *to = outputs + row / TILES * OUT2 * OUT2 * C2 + OUTPUT_AT(row % TILES) + c + part;
                    for (int j = 0; j < PATCH; j++)
                        to_outputs(from + j * ROWS * 2 * WIDE, PATCH * ROWS * 2 * WIDE, half + j * WIDE, PATCH * WIDE, (floats){0});
                    for (int y = 0; y < 4; y++)
                        to_outputs(half + y * PATCH * WIDE, WIDE, to + y * OUT2 * C2, C2, LOAD(bias + c + part));
                }
        }
        for (int row = 0; row < count * HALF2; row++)
            pool(outputs + 2 * row * OUT2 * C2, &drop, OUT2, C2, ((long)begin * HALF2 + row) * HALF2 * C2, out, best);
    }
}

/* Activations of an image that have a gradient, sorted by one number of theirs, the key: place or channel. Those of a key begin
 * at count[key]; `at` has the other number, for dx the channel, for dweight the pixel where the activation begins to see. */
struct active {
    int count[OUT2 * OUT2 + 1], at[HALF2 * HALF2 * C2];
    float grad[HALF2 * HALF2 * C2];
};

/* A list of `total` activations, in the order of their keys. */
INLINE void put(struct active *list, const int *keys, const int *values, const float *grads, int total) {
    memset(list->count, 0, sizeof list->count);
    for (int k = 0; k < total; k++) list->count[keys[k] + 1]++;
    for (int key = 0; key < OUT2 * OUT2; key++) list->count[key + 1] += list->count[key];
    int next[OUT2 * OUT2];
    memcpy(next, list->count, sizeof next);
    for (int k = 0; k < total; k++) {
        int to = next[keys[k]]++;
        list->at[to] = values[k], list->grad[to] = grads[k];
    }
}

/* sums[row][q] += sum over k of grad[k] * from[at[k] * step + row * width + q], for rows of some vectors, in registers. */
INLINE void add_rows(float *sums, long width_sums, const float *from, long step, long width, const int *at, const float *grad,
                     int count, int rows, int vectors) {
    floats sum[3][K * PARTS];
#pragma GCC unroll 3
    for (int a = 0; a < rows; a++)
#pragma GCC unroll 20
        for (int q = 0; q < vectors; q++) sum[a][q] = LOAD(sums + a * width_sums + q * WIDE);
    for (int k = 0; k < count; k++) {
        const float *here = from + at[k] * step;
#pragma GCC unroll 3
        for (int a = 0; a < rows; a++)
#pragma GCC unroll 20
            for (int q = 0; q < vectors; q++) sum[a][q] += grad[k] * LOAD(here + a * width + q * WIDE);
    }
#pragma GCC unroll 3
    for (int a = 0; a < rows; a++)
#pragma GCC unroll 20
        for (int q = 0; q < vectors; q++) STORE(sums + a * width_sums + q * WIDE, sum[a][q]);
}

/* Writes dx [n][12][12][32]; adds to dweight [64][25][32] and dbias [64]. */
void second_backward(int n, const float *x, const float *weight, float scale, const float *dout, const int *best, float *dx,
                     float *dweight, float *dbias) {
    struct active by_place, by_channel;
    int places[HALF2 * HALF2 * C2], channels[HALF2 * HALF2 * C2], begins[HALF2 * HALF2 * C2];
    float grads[HALF2 * HALF2 * C2];
    memset(dx, 0, sizeof(float) * n * HALF1 * HALF1 * C1);
    for (int i = 0; i < n; i++, x += HALF1 * HALF1 * C1, dx += HALF1 * HALF1 * C1) {
        int total = 0;
        for (int window = 0; window < HALF2 * HALF2; window++)
            for (int c = 0; c < C2; c++) {
                long at = ((long)i * HALF2 * HALF2 + window) * C2 + c;
                int y = window / HALF2 * 2 + (best[at] >> 1), where = window % HALF2 * 2 + (best[at] & 1);
                places[total] = y * OUT2 + where, channels[total] = c, begins[total] = y * HALF1 + where;
                grads[total] = dout[at] * scale;
                total += best[at] >= 0 && dout[at] != 0;
            }
        put(&by_place, places, channels, grads, total);
        put(&by_channel, channels, begins, grads, total);
        for (int c = 0; c < C2; c++) {
            int from = by_channel.count[c], count = by_channel.count[c + 1] - from;
            const int *at = by_channel.at + from;
            const float *grad = by_channel.grad + from;
            float *sums = dweight + c * K * K * C1;
            for (int k = 0; k < count; k++) dbias[c] += grad[k];
#ifdef __AVX512F__
            add_rows(sums, K * C1, x, C1, HALF1 * C1, at, grad, count, 3, K * PARTS);
            add_rows(sums + 3 * K * C1, K * C1, x + 3 * HALF1 * C1, C1, HALF1 * C1, at, grad, count, 2, K * PARTS);
#else
            for (int a = 0; a < K; a++)
                for (int half = 0; half < K * C1; half += K * C1 / 2)
                    add_rows(sums + a * K * C1 + half, 0, x + a * HALF1 * C1 + half, C1, 0, at, grad, count, 1, K * PARTS / 2);
#endif
        }
        /* half a row of all filters at a time: it stays in the first cache */
        for (int a = 0; a < K; a++)
            for (int half = 0; half < K * C1; half += K * C1 / 2)
                for (int place = 0; place < OUT2 * OUT2; place++) {
                    int from = by_place.count[place], count = by_place.count[place + 1] - from;
                    float *sums = dx + ((place / OUT2 + a) * HALF1 + place % OUT2) * C1 + half;
                    add_rows(sums, 0, weight + a * K * C1 + half, K * K * C1, 0, by_place.at + from, by_place.grad + from,
                             count, 1, K * PARTS / 2);
                }
    }
}

/* ---- both, without dropout and without a way back ---- */

/* x [n][28][28] -> out [n][4][4][64] */
void blocks(int n, const float *x, const float *filters1, const float *bias1, const float *filters2, const float *bias2, float *out) {
    static __thread float hidden[TOGETHER * HALF1 * HALF1 * C1];
    for (int begin = 0; begin < n; begin += TOGETHER) {
        int count = n - begin < TOGETHER ? n - begin : TOGETHER;
        first_forward(count, x + (long)begin * SIDE * SIDE, filters1, bias1, 0, 0, 1, hidden, 0);
        second_forward(count, hidden, filters2, bias2, 0, 0, 1, out + (long)begin * HALF2 * HALF2 * C2, 0);
    }
}
