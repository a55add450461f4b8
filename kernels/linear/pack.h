// Weights rearranged so that one 64-byte load feeds sixteen output columns.
//
// Sixteen rows of the matrix [n, k] form a tile; a tile runs through k in blocks of 32 (the GGUF block):
//   AFFINE4  w = d * code + m, code 0..15   4 x 64 bytes of codes, 16 half d, 16 half m   (Q4_1, 20 bytes per 32 weights)
//   SYMM4    w = d * (code - 8)             4 x 64 bytes of codes, 16 half d              (Q4_0)
//   SYMM8    w = d * (code - 128)           8 x 64 bytes of codes, 16 half d              (Q8_0)
//   FLOAT32, FLOAT16, BFLOAT16              for each k sixteen values, in the type of the file
// In a code vector, bytes 4j..4j+3 are four neighbouring k of column j: what VPDPBUSD multiplies at once. A 4-bit vector
// holds k 4g..4g+3 in its low and k 16+4g..16+4g+3 in its high nibbles, as GGUF does. n is padded to whole tiles with zeros.
#pragma once
#include <cstdint>
#include <cstring>

enum Format { AFFINE4, SYMM4, SYMM8, FLOAT32, FLOAT16, BFLOAT16 };

constexpr int TILE = 16, GROUP = 32;

inline int64_t packed_block_bytes(int format) {  // of one tile: 32 k, or one k for the float formats
    constexpr int64_t bytes[] = {320, 288, 544, 64, 32, 32};
    return bytes[format];
}

inline int64_t packed_tile_bytes(int format, int64_t k) {
    return packed_block_bytes(format) * (format >= FLOAT32 ? k : k / GROUP);
}

inline int64_t packed_bytes(int format, int64_t n, int64_t k) {
    return (n + TILE - 1) / TILE * packed_tile_bytes(format, k);
}

inline void pack_quantised_block(int format, const uint8_t* raw, int column, uint8_t* out) {
    const int scales = format == AFFINE4 ? 4 : 2;  // bytes of d (and m) before the codes
    const uint8_t* codes = raw + scales;
    const int vectors = format == SYMM8 ? 8 : 4;
    for (int g = 0; g < vectors; g++)
        for (int i = 0; i < 4; i++)
            out[g * 64 + column * 4 + i] = format == SYMM8 ? codes[g * 4 + i] ^ 0x80 : codes[g * 4 + i];
    memcpy(out + vectors * 64 + column * 2, raw, 2);
    if (format == AFFINE4) memcpy(out + vectors * 64 + 32 + column * 2, raw + 2, 2);
}

// raw: [n, k] as the file has it, rows of GGUF blocks or of plain values.
inline void pack(int format, const uint8_t* raw, int64_t n, int64_t k, uint8_t* out) {
    constexpr int64_t raw_bytes[] = {20, 18, 34, 4, 2, 2};
    const int64_t unit = raw_bytes[format], steps = format >= FLOAT32 ? k : k / GROUP, block = packed_block_bytes(format);
    memset(out, 0, packed_bytes(format, n, k));
    for (int64_t row = 0; row < n; row++) {
        uint8_t* tile = out + row / TILE * packed_tile_bytes(format, k);
        const int column = row % TILE;
        for (int64_t s = 0; s < steps; s++) {
            const uint8_t* source = raw + (row * steps + s) * unit;
            if (format >= FLOAT32) memcpy(tile + s * block + column * unit, source, unit);
            else pack_quantised_block(format, source, column, tile + s * block);
        }
    }
}
