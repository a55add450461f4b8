// The formats of a weight [n, k]: how a row lies in the file, and how sixteen rows of them lie in memory.
//
// Sixteen rows form a tile, their bytes rearranged so that one 64-byte load feeds sixteen output columns; n is padded to
// whole tiles with zeros. A format is a struct that goes through k in steps:
//   STEP                             columns of k a step: 32 where codes meet activations in int8, 1 where they become floats
//   pack(raw, step, column, tile)    moves a step of one raw row (GGUF's, or formats.py's) to its column of the tile
//   STEP 32: read(raw, step)         one row's 32 weights, plainly: w = d * (code - ZERO) + m
//            unpack(tile, step, first)  the same of LANES rows from the first; SCALES 2: a scale for each half; AFFINE: with m
//   STEP 1:  value(raw, i)           one weight
//            span(tile, i, first)    32 of LANES rows from the first: its column(0) is that of i
// All is in the unnamed namespace: each instruction set compiles its own.
#pragma once
#include <cstdint>
#include <cstring>
#include "../native/lanes.h"

namespace {

constexpr int TILE = 16, GROUP = 32;

// 32 weights of one row.
struct Decoded {
    uint8_t codes[GROUP];
    float d[2], m;
};

// 32 weights of LANES rows: bytes 4j..4j+3 of codes[v] are k 4v..4v+3 of row j, what VPDPBUSD multiplies at once.
struct Unpacked {
    u32v codes[8];
    f32v d[2], m;
};

inline float half_at(const uint8_t* p) { f16 x; memcpy(&x, p, 2); return to_float(x); }
inline int nibble(const uint8_t* p, int i) { return p[i % 16] >> i / 16 * 4 & 15; }  // code i of 32, as GGUF lays them
inline f32v halves_at(const uint8_t* p, int first) { return floats_at((const f16*)p + first); }
inline u32v words_at(const uint8_t* p, int first) { return lanes_at<u32v>(p + first * 4); }

// The codes of a step in a tile. Of 4 to 6 bits: four vectors of nibbles, codes[v] low and codes[v + 4] high, then one
// vector with the fifth bits or two with the fifth and sixth; of 8 bits: eight vectors.
template <int BITS>
struct Codes {
    static constexpr int BYTES = 64 * BITS, HIGH = BITS - 4;

    static void pack(const uint8_t* codes, int column, uint8_t* out) {
        for (int i = 0; i < GROUP; i++) {
            const int v = i / 4, byte = column * 4 + i % 4;
            if (BITS == 8) out[v * 64 + byte] = codes[i];
            else {
                out[v % 4 * 64 + byte] |= (codes[i] & 15) << v / 4 * 4;
                if (HIGH) out[(4 + v * HIGH / 8) * 64 + byte] |= codes[i] >> 4 << v * HIGH % 8;
            }
        }
    }

    static void unpack(const uint8_t* packed, int first, u32v* codes) {
#pragma GCC unroll 8
        for (int v = 0; v < 8; v++) {
            codes[v] = words_at(packed + v % (BITS == 8 ? 8 : 4) * 64, first);
            if (BITS < 8) codes[v] = codes[v] >> v / 4 * 4 & 0x0f0f0f0f;
            if (HIGH == 1) codes[v] |= (words_at(packed + 256, first) >> v & 0x01010101) << 4;
            if (HIGH == 2) codes[v] |= (words_at(packed + 256 + v / 4 * 64, first) >> v % 4 * 2 & 0x03030303) << 4;
        }
    }
};

// Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: d (and m) in half, the fifth bits, the codes.
template <int BITS_, bool AFFINE_>
struct Simple {
    static constexpr int STEP = GROUP, BITS = BITS_, SCALES = 1, ZERO = AFFINE_ ? 0 : 1 << (BITS_ - 1);
    static constexpr bool AFFINE = AFFINE_;
    static constexpr int HEAD = AFFINE ? 4 : 2, BYTES = HEAD + 4 * BITS;

    Decoded read(const uint8_t* raw, int64_t step) const {
        raw += step * BYTES;
        Decoded out{{}, {half_at(raw), half_at(raw)}, AFFINE ? half_at(raw + 2) : 0.0f};
        uint32_t fifth = 0;
        if (BITS == 5) memcpy(&fifth, raw + HEAD, 4);
        const uint8_t* codes = raw + HEAD + (BITS == 5 ? 4 : 0);
        for (int i = 0; i < GROUP; i++)
            out.codes[i] = BITS == 8 ? codes[i] ^ 0x80 : nibble(codes, i) | (fifth >> i & 1) << 4;
        return out;
    }

    void pack(const uint8_t* raw, int64_t step, int column, uint8_t* tile) const {
        tile += step * BYTES * TILE;
        for (int half = 0; half < HEAD; half += 2) memcpy(tile + half * TILE + column * 2, raw + step * BYTES + half, 2);
        Codes<BITS>::pack(read(raw, step).codes, column, tile + HEAD * TILE);
    }

    Unpacked unpack(const uint8_t* tile, int64_t step, int first) const {
        tile += step * BYTES * TILE;
        Unpacked out;
        out.d[0] = halves_at(tile, first);
        if (AFFINE) out.m = halves_at(tile + 2 * TILE, first);
        Codes<BITS>::unpack(tile + HEAD * TILE, first, out.codes);
        return out;
    }
};

// Q4_K, Q5_K: eight steps share d and dmin in half; each has a scale and a minimum of 6 bits, in three words as in the file:
// byte j of the first two holds those of step j in its low bits; those of step 4 + j lie in byte j of the third, their
// two upper bits above the 6 of the first two.
template <int BITS_>
struct Super {
    static constexpr int STEP = GROUP, BITS = BITS_, SCALES = 1, ZERO = 0;
    static constexpr bool AFFINE = true;
    static constexpr int BYTES = 16 + 32 * BITS;

    template <class Word>
    static void scale_and_minimum(const Word* words, int step, Word& scale, Word& minimum) {
        const int byte = step % 4 * 8;
        if (step < 4) {
            scale = words[0] >> byte & 63;
            minimum = words[1] >> byte & 63;
        } else {
            scale = (words[2] >> byte & 15) | (words[0] >> (byte + 6) & 3) << 4;
            minimum = (words[2] >> (byte + 4) & 15) | (words[1] >> (byte + 6) & 3) << 4;
        }
    }

    Decoded read(const uint8_t* raw, int64_t step) const {
        raw += step / 8 * BYTES;
        const int j = step % 8;
        uint32_t words[3], scale, minimum;
        memcpy(words, raw + 4, 12);
        scale_and_minimum(words, j, scale, minimum);
        const float d = half_at(raw) * (float)scale;
        Decoded out{{}, {d, d}, -half_at(raw + 2) * (float)minimum};
        const uint8_t *fifth = raw + 16, *codes = fifth + (BITS == 5 ? 32 : 0) + j / 2 * 32;
        for (int i = 0; i < GROUP; i++)
            out.codes[i] = (codes[i] >> j % 2 * 4 & 15) | (BITS == 5 ? fifth[i] >> j & 1 : 0) << 4;
        return out;
    }

    void pack(const uint8_t* raw, int64_t step, int column, uint8_t* tile) const {
        const uint8_t* head = raw + step / 8 * BYTES;
        tile += step / 8 * BYTES * TILE;
        for (int half = 0; half < 4; half += 2) memcpy(tile + half * TILE + column * 2, head + half, 2);
        for (int word = 4; word < 16; word += 4) memcpy(tile + word * TILE + column * 4, head + word, 4);
        Codes<BITS>::pack(read(raw, step).codes, column, tile + 16 * TILE + step % 8 * Codes<BITS>::BYTES);
    }

    Unpacked unpack(const uint8_t* tile, int64_t step, int first) const {
        tile += step / 8 * BYTES * TILE;
        u32v words[3], scale, minimum;
        for (int i = 0; i < 3; i++) words[i] = words_at(tile + (4 + i * 4) * TILE, first);
        scale_and_minimum(words, step % 8, scale, minimum);
        Unpacked out;
        out.d[0] = halves_at(tile, first) * to_floats((i32v)scale);
        out.m = -halves_at(tile + 2 * TILE, first) * to_floats((i32v)minimum);
        Codes<BITS>::unpack(tile + 16 * TILE + step % 8 * Codes<BITS>::BYTES, first, out.codes);
        return out;
    }
};

// Q6_K: eight steps share d; each half of a step has an int8 scale.
struct Q6_K {
    static constexpr int STEP = GROUP, BITS = 6, SCALES = 2, ZERO = 32;
    static constexpr bool AFFINE = false;
    static constexpr int BYTES = 210;

    Decoded read(const uint8_t* raw, int64_t step) const {
        raw += step / 8 * BYTES;
        const int j = step % 8, quarter = j % 4;
        const float d = half_at(raw + 208);
        const int8_t* scales = (const int8_t*)raw + 192 + j * 2;
        Decoded out{{}, {d * scales[0], d * scales[1]}, 0.0f};
        const uint8_t *low = raw + j / 4 * 64 + quarter % 2 * 32, *high = raw + 128 + j / 4 * 32;
        for (int i = 0; i < GROUP; i++)
            out.codes[i] = (low[i] >> quarter / 2 * 4 & 15) | (high[i] >> quarter * 2 & 3) << 4;
        return out;
    }

    void pack(const uint8_t* raw, int64_t step, int column, uint8_t* tile) const {
        const uint8_t* block = raw + step / 8 * BYTES;
        tile += step / 8 * BYTES * TILE;
        memcpy(tile + column * 2, block + 208, 2);
        for (int s = step % 8 * 2; s < step % 8 * 2 + 2; s++) tile[(2 + s) * TILE + column] = block[192 + s];
        Codes<BITS>::pack(read(raw, step).codes, column, tile + 18 * TILE + step % 8 * Codes<BITS>::BYTES);
    }

    Unpacked unpack(const uint8_t* tile, int64_t step, int first) const {
        tile += step / 8 * BYTES * TILE;
        Unpacked out;
        for (int half = 0; half < 2; half++)
            out.d[half] = halves_at(tile, first) * floats_at((const int8_t*)tile + (2 + step % 8 * 2 + half) * TILE + first);
        Codes<BITS>::unpack(tile + 18 * TILE + step % 8 * Codes<BITS>::BYTES, first, out.codes);
        return out;
    }
};

// MXFP4 (OCP Microscaling): the exponent of a scale, then codes of E2M1, whose values are halves of small integers.
struct MXFP4 {
    static constexpr int STEP = GROUP, BITS = 5, SCALES = 1, ZERO = 12, BYTES = 17;
    static constexpr bool AFFINE = false;
    static constexpr uint8_t DOUBLED[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};  // plus ZERO

    Decoded read(const uint8_t* raw, int64_t step) const {
        raw += step * BYTES;
        const uint32_t power = (uint32_t)raw[0] << 23;
        float d;
        memcpy(&d, &power, 4);
        Decoded out{{}, {d * 0.5f, d * 0.5f}, 0.0f};
        for (int i = 0; i < GROUP; i++) out.codes[i] = DOUBLED[nibble(raw + 1, i)];
        return out;
    }

    void pack(const uint8_t* raw, int64_t step, int column, uint8_t* tile) const {
        raw += step * BYTES;
        tile += step * BYTES * TILE;
        tile[column] = raw[0];
        uint8_t codes[GROUP];
        for (int i = 0; i < GROUP; i++) codes[i] = nibble(raw + 1, i);
        Codes<4>::pack(codes, column, tile + TILE);
    }

    Unpacked unpack(const uint8_t* tile, int64_t step, int first) const {
        tile += step * BYTES * TILE;
        Unpacked out;
        out.d[0] = (f32v)(__builtin_convertvector(lanes_at<u8v>(tile + first), u32v) << 23) * 0.5f;
        Codes<4>::unpack(tile + TILE, first, out.codes);
        for (u32v& codes : out.codes) codes = look_up(DOUBLED, codes);
        return out;
    }
};

// Where the word (a float32 scale) and the steps of one of our formats lie: 2^shift steps share a word that stands before
// them; with WHOLE_ROW all do. `lanes` is 1 in a raw row, 16 in a tile.
constexpr int WHOLE_ROW = 62;

struct Place {
    int64_t word, codes;
    Place(int64_t step, int shift, int step_bytes, int lanes) {
        const int64_t group = step >> shift;
        word = (group * 4 + (group << shift) * step_bytes) * lanes;
        codes = ((group + 1) * 4 + step * step_bytes) * lanes;
    }
};

// INT4 (the zero in the five lowest bits of the word) and INT8.
template <int BITS_>
struct Grouped {
    static constexpr int STEP = GROUP, BITS = BITS_, SCALES = 1, ZERO = BITS_ == 8 ? 128 : 0;
    static constexpr bool AFFINE = BITS_ == 4;
    static constexpr int BYTES = 4 * BITS;
    int shift;

    template <class Word, class Float>
    static void scale_and_minimum(Word word, Float zero, Float& d, Float& m) {
        if (AFFINE) word &= ~31u;
        memcpy(&d, &word, sizeof d);
        if (AFFINE) m = -d * zero;
    }

    Decoded read(const uint8_t* raw, int64_t step) const {
        const Place at(step, shift, BYTES, 1);
        uint32_t word;
        memcpy(&word, raw + at.word, 4);
        Decoded out{};
        scale_and_minimum(word, (float)(word & 31), out.d[0], out.m);
        out.d[1] = out.d[0];
        const uint8_t* codes = raw + at.codes;
        for (int i = 0; i < GROUP; i++) out.codes[i] = BITS == 8 ? codes[i] ^ 0x80 : nibble(codes, i);
        return out;
    }

    void pack(const uint8_t* raw, int64_t step, int column, uint8_t* tile) const {
        const Place at(step, shift, BYTES, TILE);
        memcpy(tile + at.word + column * 4, raw + Place(step, shift, BYTES, 1).word, 4);
        Codes<BITS>::pack(read(raw, step).codes, column, tile + at.codes);
    }

    Unpacked unpack(const uint8_t* tile, int64_t step, int first) const {
        const Place at(step, shift, BYTES, TILE);
        const u32v word = words_at(tile + at.word, first);
        Unpacked out;
        scale_and_minimum(word, to_floats((i32v)(word & 31)), out.d[0], out.m);
        Codes<BITS>::unpack(tile + at.codes, first, out.codes);
        return out;
    }
};

// FP8 E4M3. Its bits are those of a half 2^8 times smaller, sign and the rest moved to their places.
struct E4M3 {
    static constexpr int STEP = 1;
    int shift;

    float value(const uint8_t* raw, int64_t i) const {
        const Place at(i, shift, 1, 1);
        float scale;
        memcpy(&scale, raw + at.word, 4);
        const uint16_t code = raw[at.codes];
        return half_to_float((code & 0x80) << 8 | (code & 0x7f) << 7) * 256.0f * scale;
    }

    void pack(const uint8_t* raw, int64_t i, int column, uint8_t* tile) const {
        const Place from(i, shift, 1, 1), to(i, shift, 1, TILE);
        memcpy(tile + to.word + column * 4, raw + from.word, 4);
        tile[to.codes + column] = raw[from.codes];
    }

    struct Span {
        const uint8_t* codes;
        f32v scale;
        f32v column(int64_t i) const {
            const u16v wide = __builtin_convertvector(lanes_at<u8v>(codes + i * TILE), u16v);
            return to_floats((wide & 0x80) << 8 | (wide & 0x7f) << 7) * scale;
        }
    };
    Span span(const uint8_t* tile, int64_t i, int first) const {
        const Place at(i, shift, 1, TILE);
        return {tile + at.codes + first, floats_at((const float*)(tile + at.word) + first) * 256.0f};
    }
};

template <class T>
struct Plain {
    static constexpr int STEP = 1;

    float value(const uint8_t* raw, int64_t i) const {
        T x;
        memcpy(&x, raw + i * sizeof x, sizeof x);
        return to_float(x);
    }
    void pack(const uint8_t* raw, int64_t i, int column, uint8_t* tile) const {
        memcpy(tile + (i * TILE + column) * sizeof(T), raw + i * sizeof(T), sizeof(T));
    }
    struct Span {
        const T* values;
        f32v column(int64_t i) const { return floats_at(values + i * TILE); }
    };
    Span span(const uint8_t* tile, int64_t i, int first) const { return {(const T*)tile + i * TILE + first}; }
};

// Calls body with the format of this number: its place in FORMATS of formats.py.
template <class Body>
inline void with_format(int64_t number, const Body& body) {
    switch (number) {
        case 0: return body(Simple<4, true>{});
        case 1: return body(Simple<4, false>{});
        case 2: return body(Simple<8, false>{});
        case 3: return body(Plain<float>{});
        case 4: return body(Plain<f16>{});
        case 5: return body(Plain<bf16>{});
        case 6: return body(Simple<5, false>{});
        case 7: return body(Simple<5, true>{});
        case 8: return body(Super<4>{});
        case 9: return body(Super<5>{});
        case 10: return body(Q6_K{});
        case 11: return body(Grouped<4>{WHOLE_ROW});
        case 12: return body(Grouped<4>{0});
        case 13: return body(Grouped<4>{1});
        case 14: return body(Grouped<4>{2});
        case 15: return body(Grouped<8>{WHOLE_ROW});
        case 16: return body(Grouped<8>{0});
        case 17: return body(Grouped<8>{1});
        case 18: return body(Grouped<8>{2});
        case 19: return body(E4M3{WHOLE_ROW});
        case 20: return body(E4M3{7});
        case 21: return body(MXFP4{});
    }
}

// raw [n, row_bytes] to tiles; out is as large, n rounded up to whole tiles.
inline void pack(int64_t format, const uint8_t* raw, int64_t n, int64_t k, int64_t row_bytes, uint8_t* out) {
    memset(out, 0, (n + TILE - 1) / TILE * TILE * row_bytes);
    with_format(format, [&](auto f) {
        for (int64_t row = 0; row < n; row++)
            for (int64_t step = 0; step < k / f.STEP; step++)
                f.pack(raw + row * row_bytes, step, row % TILE, out + row / TILE * TILE * row_bytes);
    });
}

}  // namespace
