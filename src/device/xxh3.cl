/* XXH3-128 with a seed, of 1 byte and more, after the published description of the algorithm (xxhash_spec.md 0.2.0).
 * Devices are little-endian; the host has checked it.
 *
 * All words of the secret that are ever needed lie in one table that the host has made (opencl_keys.c), those at odd
 * places, too: so nothing is read unaligned here but the ends of odd inputs. */

#define P32_1 0x9E3779B1UL
#define P32_2 0x85EBCA77UL
#define P32_3 0xC2B2AE3DUL
#define P64_1 0x9E3779B185EBCA87UL
#define P64_2 0xC2B2AE3D27D4EB4FUL
#define P64_3 0x165667B19E3779F9UL
#define P64_4 0x85EBCA77C2B2AE63UL
#define P64_5 0x27D4EB2F165667C5UL
#define MIX_1 0x165667919E3779F9UL
#define MIX_2 0x9FB21C651E98DF25UL

/* The table: where what begins, in words. The first three are of the secret as it is, the others of the one made with
 * the seed. */
#define KEY_PLAIN 0  /* 16 words from byte 0 on */
#define KEY_MORE 16  /* 12 from byte 3 on */
#define KEY_END 28   /* 4 from byte 103 on */
#define KEY_STRIPE 32 /* 24 from byte 0 on */
#define KEY_LAST 56  /* 8 from byte 121 on */
#define KEY_LOW 64   /* 8 from byte 11 on */
#define KEY_HIGH 72  /* 8 from byte 117 on */

ulong fold(ulong a, ulong b) {
    return (a * b) ^ mul_hi(a, b);
}

ulong finish(ulong x) {
    x = (x ^ (x >> 37)) * MIX_1;
    return x ^ (x >> 32);
}

ulong finish_tiny(ulong x) {
    x = (x ^ (x >> 33)) * P64_2;
    x = (x ^ (x >> 29)) * P64_3;
    return x ^ (x >> 32);
}

uint turn32(uint x) {
    return (x >> 24) | ((x >> 8) & 0xff00u) | ((x << 8) & 0xff0000u) | (x << 24);
}

ulong turn64(ulong x) {
    return ((ulong)turn32((uint)x) << 32) | turn32((uint)(x >> 32));
}

/* At any place. */
ulong word_at(__global const uchar *p) {
    return as_ulong(vload8(0, p));
}

ulong2 pair_at(__global const uchar *p) {
    return (ulong2)(word_at(p), word_at(p + 8));
}

/* At a multiple of 8. */
ulong2 pair_in(__global const uchar *p) {
    return vload2(0, (__global const ulong *)p);
}

ulong2 name_1_3(__global const uchar *p, uint size, ulong seed, __constant ulong *keys) {
    uint low = ((uint)p[0] << 16) | ((uint)p[size >> 1] << 24) | p[size - 1] | (size << 8);
    uint high = rotate(turn32(low), 13u);
    ulong a = keys[KEY_PLAIN], b = keys[KEY_PLAIN + 1];
    return (ulong2)(finish_tiny(low ^ (((a ^ (a >> 32)) & 0xffffffffUL) + seed)),
                    finish_tiny(high ^ (((b ^ (b >> 32)) & 0xffffffffUL) - seed)));
}

ulong2 name_4_8(__global const uchar *p, uint size, ulong seed, __constant ulong *keys) {
    uint head = as_uint(vload4(0, p)), tail = as_uint(vload4(0, p + size - 4));
    seed ^= (ulong)turn32((uint)seed) << 32;
    ulong value = (head + ((ulong)tail << 32)) ^ ((keys[KEY_PLAIN + 2] ^ keys[KEY_PLAIN + 3]) + seed);
    ulong factor = P64_1 + (size << 2);
    ulong low = value * factor, high = mul_hi(value, factor);
    high += low << 1;
    low ^= high >> 3;
    low = (low ^ (low >> 35)) * MIX_2;
    return (ulong2)(low ^ (low >> 28), finish(high));
}

ulong2 name_9_16(__global const uchar *p, uint size, ulong seed, __constant ulong *keys) {
    ulong flip_low = (keys[KEY_PLAIN + 4] ^ keys[KEY_PLAIN + 5]) - seed;
    ulong flip_high = (keys[KEY_PLAIN + 6] ^ keys[KEY_PLAIN + 7]) + seed;
    ulong head = word_at(p), tail = word_at(p + size - 8);
    ulong value = head ^ tail ^ flip_low;
    ulong low = value * P64_1 + ((ulong)(size - 1) << 54), high = mul_hi(value, P64_1);
    tail ^= flip_high;
    high += tail + (tail & 0xffffffffUL) * (P32_2 - 1);
    low ^= turn64(high);
    return (ulong2)(finish(low * P64_2), finish(mul_hi(low, P64_2) + high * P64_2));
}

ulong2 mix_pair(ulong2 sum, ulong2 a, ulong2 b, __constant ulong *key, ulong seed) {
    sum.x = (sum.x + fold(a.x ^ (key[0] + seed), a.y ^ (key[1] - seed))) ^ (b.x + b.y);
    sum.y = (sum.y + fold(b.x ^ (key[2] + seed), b.y ^ (key[3] - seed))) ^ (a.x + a.y);
    return sum;
}

ulong2 finish_pair(ulong2 sum, uint size, ulong seed) {
    return (ulong2)(finish(sum.x + sum.y), 0 - finish(sum.x * P64_1 + sum.y * P64_4 + (size - seed) * P64_2));
}

ulong2 name_17_128(__global const uchar *p, uint size, ulong seed, __constant ulong *keys) {
    ulong2 sum = (ulong2)(size * P64_1, 0);
    for (int i = (int)(size - 1) / 32; i >= 0; i--)
        sum = mix_pair(sum, pair_at(p + 16 * i), pair_at(p + size - 16 * (i + 1)), keys + KEY_PLAIN + 4 * i, seed);
    return finish_pair(sum, size, seed);
}

/* The same for 32, 64 and 128 bytes at a multiple of 8: all whole chunks that are short. */
ulong2 name_even(__global const uchar *p, uint size, ulong seed, __constant ulong *keys) {
    ulong2 sum = (ulong2)(size * P64_1, 0);
    if (size > 64) {
        sum = mix_pair(sum, pair_in(p + 48), pair_in(p + size - 64), keys + KEY_PLAIN + 12, seed);
        sum = mix_pair(sum, pair_in(p + 32), pair_in(p + size - 48), keys + KEY_PLAIN + 8, seed);
    }
    if (size > 32)
        sum = mix_pair(sum, pair_in(p + 16), pair_in(p + size - 32), keys + KEY_PLAIN + 4, seed);
    sum = mix_pair(sum, pair_in(p), pair_in(p + size - 16), keys + KEY_PLAIN, seed);
    return finish_pair(sum, size, seed);
}

ulong2 name_129_240(__global const uchar *p, uint size, ulong seed, __constant ulong *keys) {
    ulong2 sum = (ulong2)(size * P64_1, 0);
    for (uint i = 0; i < 4; i++)
        sum = mix_pair(sum, pair_at(p + 32 * i), pair_at(p + 32 * i + 16), keys + KEY_PLAIN + 4 * i, seed);
    sum = (ulong2)(finish(sum.x), finish(sum.y));
    for (uint i = 4; i < size / 32; i++)
        sum = mix_pair(sum, pair_at(p + 32 * i), pair_at(p + 32 * i + 16), keys + KEY_MORE + 4 * (i - 4), seed);
    sum = mix_pair(sum, pair_at(p + size - 16), pair_at(p + size - 32), keys + KEY_END, 0 - seed);
    return finish_pair(sum, size, seed);
}

ulong8 stripe(ulong8 sum, ulong8 value, ulong8 key) {
    ulong8 mixed = value ^ key;
    return sum + value.s10325476 + (mixed & 0xffffffffUL) * (mixed >> 32);
}

ulong merge(ulong8 sum, ulong start, __constant ulong *key) {
    return finish(start + fold(sum.s0 ^ key[0], sum.s1 ^ key[1]) + fold(sum.s2 ^ key[2], sum.s3 ^ key[3]) +
                  fold(sum.s4 ^ key[4], sum.s5 ^ key[5]) + fold(sum.s6 ^ key[6], sum.s7 ^ key[7]));
}

/* 241 bytes and more, from a multiple of 8 on: stripes of 64 bytes, the sums stirred after every 16th; the last stripe
 * ends where the input ends. */
ulong2 name_long(__global const uchar *p, uint size, __constant ulong *keys) {
    ulong8 sum = (ulong8)(P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1);
    uint count = (size - 1) / 64;
    for (uint i = 0; i < count; i++) {
        sum = stripe(sum, vload8(i, (__global const ulong *)p), vload8(0, keys + KEY_STRIPE + i % 16));
        if (i % 16 == 15)
            sum = (sum ^ (sum >> 47) ^ vload8(0, keys + KEY_STRIPE + 16)) * P32_1;
    }
    __global const uchar *last = p + size - 64;
    ulong8 value;
    if (size % 8 == 0)
        value = vload8(0, (__global const ulong *)last);
    else
        value = (ulong8)(word_at(last), word_at(last + 8), word_at(last + 16), word_at(last + 24), word_at(last + 32),
                         word_at(last + 40), word_at(last + 48), word_at(last + 56));
    sum = stripe(sum, value, vload8(0, keys + KEY_LAST));
    return (ulong2)(merge(sum, size * P64_1, keys + KEY_LOW), merge(sum, ~(size * P64_2), keys + KEY_HIGH));
}

ulong2 xxh3(__global const uchar *p, uint size, ulong seed, __constant ulong *keys) {
    if (size > 240)
        return name_long(p, size, keys);
    if (size == 32 || size == 64 || size == 128)
        return name_even(p, size, seed, keys);
    if (size > 128)
        return name_129_240(p, size, seed, keys);
    if (size > 16)
        return name_17_128(p, size, seed, keys);
    if (size > 8)
        return name_9_16(p, size, seed, keys);
    return size > 3 ? name_4_8(p, size, seed, keys) : name_1_3(p, size, seed, keys);
}

/* From a multiple of 8 on. Most bytes show at once that they are not all zero. */
int is_zero(__global const uchar *p, uint size) {
    __global const ulong *words = (__global const ulong *)p;
    for (uint i = 0; i < size / 8; i++)
        if (words[i] != 0)
            return 0;
    for (uint i = size & ~7u; i < size; i++)
        if (p[i] != 0)
            return 0;
    return 1;
}

/* An id as Varve has it: 0 for zeros. */
ulong2 name_bytes(__global const uchar *p, uint size, ulong seed, __constant ulong *keys) {
    return is_zero(p, size) ? (ulong2)(0, 0) : xxh3(p, size, seed, keys);
}
