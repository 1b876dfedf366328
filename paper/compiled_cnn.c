/* The two convolution blocks of the BatchBALD CNN on 28 x 28 images: convolution, dropout mask, 2 x 2 max-pooling, ReLU.
 *
 * All images are [height][width][channels]. Masks are factors, 0 where an activation is dropped, or NULL for no dropout.
 * `best` says which of the four activations of a window was the largest, or -1 where nothing above zero was left: it is all
 * that the way back needs.
 *
 * The second convolution, 32 channels of 12 x 12 to 64 of 8 x 8, is made by Winograd's minimal filtering F(4 x 4, 5 x 5) (Lavin
 * and Gray 2016): 8 x 8 patches of the input and the filters are transformed, multiplied as 64 small matrix products, and
 * transformed back to 4 x 4 outputs, with a sixth of the multiplications. On the way back at most one activation of a window
 * has a gradient, so its products are written out for these alone. Winograd's transforms would be as fast there, but they
 * leave a rounding error where a gradient is exactly zero, and Adam, which divides a gradient by its usual size, makes a
 * whole step of it.
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
    PARTS = C1 / WIDE, PIXELS = 2 * SUMS / PARTS, /* vectors per pixel, pixels or taps at a time */
    K = 5, PATCH = 8, POINTS = PATCH * PATCH,
    TILES = 4, TOGETHER = 6, ROWS = TILES * TOGETHER /* patches per image, images and patches at a time */
};

/* Numbers of `yes` where the mask is set, of `no` elsewhere. */
INLINE ints choose(ints mask, ints yes, ints no) { return (mask & yes) | (~mask & no); }

/* The largest of each window, after the mask; two rows of activations make one row of outputs. */
INLINE void pool(const float *rows, const float *mask, int width, int channels, float *out, int *best) {
    for (int x = 0; x < width / 2; x++)
        for (int c = 0; c < channels; c += WIDE) {
            floats top = {0};
            ints at = (ints){0} - 1;
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) {
                int from = ((k >> 1) * width + 2 * x + (k & 1)) * channels + c;
                floats value = LOAD(rows + from);
                if (mask) value *= LOAD(mask + from);
                ints larger = value > top;
                at = choose(larger, (ints){0} + k, at);
                top = (floats)choose(larger, (ints)value, (ints)top);
            }
            STORE(out + x * channels + c, top);
            *(ints *)(best + x * channels + c) = at;
        }
}

/* The gradient of two rows of activations from that of one row of outputs. */
INLINE void unpool(const float *grad, const int *best, const float *mask, int width, int channels, float *rows) {
    for (int x = 0; x < width / 2; x++)
        for (int c = 0; c < channels; c += WIDE) {
            ints value = (ints)LOAD(grad + x * channels + c), at = *(const ints *)(best + x * channels + c);
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) {
                int to = ((k >> 1) * width + 2 * x + (k & 1)) * channels + c;
                floats here = (floats)(value & (at == k));
                if (mask) here *= LOAD(mask + to);
                STORE(rows + to, here);
            }
        }
}

/* ---- the first block ---- */

/* x [n][28][28], weight [25][32], bias [32], mask [n][24][24][32] -> out, best [n][12][12][32] */
void first_forward(int n, const float *x, const float *weight, const float *bias, const float *mask, float *out, int *best) {
    float rows[2 * OUT1 * C1];
    for (int i = 0; i < n; i++, x += SIDE * SIDE)
        for (int y = 0; y < OUT1; y++) {
            float *row = rows + (y & 1) * OUT1 * C1;
            for (int at = 0; at < OUT1; at += PIXELS) {
                floats sum[PIXELS][PARTS];
                for (int p = 0; p < PIXELS; p++)
                    for (int q = 0; q < PARTS; q++) sum[p][q] = LOAD(bias + WIDE * q);
                for (int a = 0; a < K; a++)
                    for (int b = 0; b < K; b++) {
                        const float *w = weight + (a * K + b) * C1, *pixel = x + (y + a) * SIDE + at + b;
#pragma GCC unroll 12
                        for (int p = 0; p < PIXELS; p++)
#pragma GCC unroll 4
                            for (int q = 0; q < PARTS; q++) sum[p][q] += pixel[p] * LOAD(w + WIDE * q);
                    }
                for (int p = 0; p < PIXELS; p++)
                    for (int q = 0; q < PARTS; q++) STORE(row + (at + p) * C1 + WIDE * q, sum[p][q]);
            }
            if (y & 1) {
                long window = ((long)i * HALF1 + y / 2) * HALF1 * C1;
                pool(rows, mask ? mask + 4 * window : 0, OUT1, C1, out + window, best + window);
            }
        }
}

/* Some taps of the gradient of the weights: sum over pixels of gradient times input. */
INLINE void first_taps(const float *x, const float *grad, float *dweight, int tap, int taps) {
    floats sum[PIXELS][PARTS];
    for (int p = 0; p < taps; p++)
        for (int q = 0; q < PARTS; q++) sum[p][q] = LOAD(dweight + (tap + p) * C1 + WIDE * q);
    for (int y = 0; y < OUT1; y++)
        for (int at = 0; at < OUT1; at++) {
            const float *g = grad + (y * OUT1 + at) * C1;
#pragma GCC unroll 12
            for (int p = 0; p < taps; p++) {
                float pixel = x[(y + (tap + p) / K) * SIDE + at + (tap + p) % K];
#pragma GCC unroll 4
                for (int q = 0; q < PARTS; q++) sum[p][q] += pixel * LOAD(g + WIDE * q);
            }
        }
    for (int p = 0; p < taps; p++)
        for (int q = 0; q < PARTS; q++) STORE(dweight + (tap + p) * C1 + WIDE * q, sum[p][q]);
}

/* Adds to dweight [25][32] and dbias [32]. */
void first_backward(int n, const float *x, const float *mask, const float *dout, const int *best, float *dweight, float *dbias) {
    static __thread float grad[OUT1 * OUT1 * C1];
    for (int i = 0; i < n; i++, x += SIDE * SIDE) {
        for (int y = 0; y < HALF1; y++) {
            long window = ((long)i * HALF1 + y) * HALF1 * C1;
            unpool(dout + window, best + window, mask ? mask + 4 * window : 0, OUT1, C1, grad + 2 * y * OUT1 * C1);
        }
        for (int at = 0; at < OUT1 * OUT1; at++)
            for (int c = 0; c < C1; c++) dbias[c] += grad[at * C1 + c];
        for (int tap = 0; tap < 24; tap += PIXELS) first_taps(x, grad, dweight, tap, PIXELS);
        first_taps(x, grad, dweight, 24, 1);
    }
}

/* ---- the second block ---- */

/* Winograd's matrices for the points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity; see compiled_cnn.py, which has the filters'. */
static const float INPUT[8][8] = INPUT_MATRIX;   /* of patches of the input */
static const float OUTPUT[4][8] = OUTPUT_MATRIX; /* of products to outputs */

/* to[i] = sum over k of matrix[i][k] * from[k], for WIDE channels. */
#define TRANSFORM(name, I, J, ENTRY)                                                      \
    INLINE void name(const float *from, long step_from, float *to, long step_to) {        \
        floats in[J];                                                                         \
        _Pragma("GCC unroll 8") for (int k = 0; k < J; k++) in[k] = LOAD(from + k * step_from); \
        _Pragma("GCC unroll 8") for (int i = 0; i < I; i++) {                             \
            floats sum = {0};                                                                 \
            _Pragma("GCC unroll 8") for (int k = 0; k < J; k++) if (ENTRY != 0) sum += ENTRY * in[k]; \
            STORE(to + i * step_to, sum);                                                 \
        }                                                                                 \
    }
TRANSFORM(to_points, 8, 8, INPUT[i][k])
TRANSFORM(to_outputs, 4, 8, OUTPUT[i][k])

/* c [24][64] = a [24][32] b [32][64] */
INLINE void product(const float *a, const float *b, float *c) {
    for (int n = 0; n < C2; n += 2 * WIDE)
        for (int m = 0; m < ROWS; m += SUMS) {
            floats sum[SUMS][2] = {0};
            for (int l = 0; l < C1; l++) {
                floats left = LOAD(b + l * C2 + n), right = LOAD(b + l * C2 + n + WIDE);
#pragma GCC unroll 12
                for (int r = 0; r < SUMS; r++) {
                    float factor = a[(m + r) * C1 + l];
                    sum[r][0] += factor * left, sum[r][1] += factor * right;
                }
            }
#pragma GCC unroll 12
            for (int r = 0; r < SUMS; r++) {
                STORE(c + (m + r) * C2 + n, sum[r][0]);
                STORE(c + (m + r) * C2 + n + WIDE, sum[r][1]);
            }
        }
}

/* Where a patch of an image begins, and where its outputs do. */
#define PATCH_AT(tile) (((tile) / 2 * 4 * HALF1 + (tile) % 2 * 4) * C1)
#define OUTPUT_AT(tile) (((tile) / 2 * 4 * OUT2 + (tile) % 2 * 4) * C2)

/* x [n][12][12][32], filters [64 points][32][64], bias [64], mask [n][8][8][64] -> out, best [n][4][4][64]. */
void second_forward(int n, const float *x, const float *filters, const float *bias, const float *mask, float *out, int *best) {
    static __thread float points[POINTS * ROWS * C1], products[POINTS * ROWS * C2];
    float half[PATCH * PATCH * WIDE], outputs[OUT2 * OUT2 * C2];
    for (int begin = 0; begin < n; begin += TOGETHER) {
        int count = n - begin < TOGETHER ? n - begin : TOGETHER;
        for (int row = 0; row < count * TILES; row++)
            for (int c = 0; c < C1; c += WIDE) {
                const float *patch = x + (long)(begin + row / TILES) * HALF1 * HALF1 * C1 + PATCH_AT(row % TILES) + c;
                for (int j = 0; j < PATCH; j++) to_points(patch + j * C1, HALF1 * C1, half + j * WIDE, PATCH * WIDE);
                for (int i = 0; i < PATCH; i++)
                    to_points(half + i * PATCH * WIDE, WIDE, points + ((long)i * PATCH * ROWS + row) * C1 + c, ROWS * C1);
            }
        for (int p = 0; p < POINTS; p++)
            product(points + p * ROWS * C1, filters + p * C1 * C2, products + p * ROWS * C2);
        for (int i = 0; i < count; i++) {
            for (int tile = 0; tile < TILES; tile++)
                for (int c = 0; c < C2; c += WIDE) {
                    const float *product = products + (i * TILES + tile) * C2 + c;
                    for (int j = 0; j < PATCH; j++)
                        to_outputs(product + j * ROWS * C2, PATCH * ROWS * C2, half + j * WIDE, PATCH * WIDE);
                    for (int y = 0; y < 4; y++)
                        to_outputs(half + y * PATCH * WIDE, WIDE, outputs + OUTPUT_AT(tile) + y * OUT2 * C2 + c, C2);
                }
            for (int at = 0; at < OUT2 * OUT2; at++)
                for (int c = 0; c < C2; c++) outputs[at * C2 + c] += bias[c];
            for (int y = 0; y < HALF2; y++) {
                long window = ((long)(begin + i) * HALF2 + y) * HALF2 * C2;
                pool(outputs + 2 * y * OUT2 * C2, mask ? mask + 4 * window : 0, OUT2, C2, out + window, best + window);
            }
        }
    }
}

/* Writes dx [n][12][12][32]; adds to dweight [64][25][32] and dbias [64]. */
void second_backward(int n, const float *x, const float *weight, const float *mask, const float *dout, const int *best,
                     float *dx, float *dweight, float *dbias) {
    memset(dx, 0, sizeof(float) * n * HALF1 * HALF1 * C1);
    for (int i = 0; i < n; i++)
        for (int c = 0; c < C2; c++) {
            /* the activations of this channel that were the largest of their windows: their gradients, and where they see */
            float grad[HALF2 * HALF2 + 3];
            int from[HALF2 * HALF2 + 3], count = 0;
            for (int window = 0; window < HALF2 * HALF2; window++) {
                long at = ((long)i * HALF2 * HALF2 + window) * C2 + c;
                if (best[at] < 0 || dout[at] == 0) continue;
                int y = window / HALF2 * 2 + best[at] / 2, where = window % HALF2 * 2 + best[at] % 2;
                grad[count] = mask ? dout[at] * mask[((long)(i * OUT2 + y) * OUT2 + where) * C2 + c] : dout[at];
                dbias[c] += grad[count];
                from[count++] = (y * HALF1 + where) * C1;
            }
            for (int k = count; k < count + 3; k++) grad[k] = 0, from[k] = 0;
            const float *image = x + (long)i * HALF1 * HALF1 * C1;
            for (int k = 0; k < count; k += 4) /* four at a time: one visit to a weight for all */
                for (int a = 0; a < K; a++)
                    for (int q = 0; q < K * C1; q += WIDE) {
                        float *to = dweight + (c * K + a) * K * C1 + q;
                        const float *pixel = image + a * HALF1 * C1 + q;
                        STORE(to, LOAD(to) + grad[k] * LOAD(pixel + from[k]) + grad[k + 1] * LOAD(pixel + from[k + 1]) +
                                      grad[k + 2] * LOAD(pixel + from[k + 2]) + grad[k + 3] * LOAD(pixel + from[k + 3]));
                    }
            for (int k = 0; k < count; k++)
                for (int a = 0; a < K; a++)
#pragma GCC unroll 4
                    for (int q = 0; q < K * C1; q += WIDE) {
                        float *to = dx + (long)i * HALF1 * HALF1 * C1 + from[k] + a * HALF1 * C1 + q;
                        STORE(to, LOAD(to) + grad[k] * LOAD(weight + (c * K + a) * K * C1 + q));
                    }
        }
}
