/* Limits: a part of troupe_std.h, which includes it in its namespace. SPDX-License-Identifier:
 * Apache-2.0 */

enum float_round_style {
    round_indeterminate = -1,
    round_toward_zero = 0,
    round_to_nearest = 1,
    round_toward_infinity = 2,
    round_toward_neg_infinity = 3
};
enum float_denorm_style { denorm_indeterminate = -1, denorm_absent = 0, denorm_present = 1 };

template <class T, int K = trp_number<T>::kind> struct trp_limits {
    static constexpr bool is_specialized = false;
    static constexpr bool is_integer = false;
    static constexpr bool is_signed = false;
    static constexpr bool has_infinity = false;
    static constexpr int digits = 0;
    static TRP_FN constexpr T min() noexcept
    {
        return T();
    }
    static TRP_FN constexpr T max() noexcept
    {
        return T();
    }
    static TRP_FN constexpr T lowest() noexcept
    {
        return T();
    }
    static TRP_FN constexpr T infinity() noexcept
    {
        return T();
    }
};
template <class T> struct trp_limits<T, 1> {
    static constexpr bool is_specialized = true;
    static constexpr bool is_integer = true;
    static constexpr bool is_signed = T(-1) < T(0);
    static constexpr bool has_infinity = false;
    static constexpr int digits = is_same_v<T, bool> ? 1 : int(sizeof(T)) * 8 - is_signed;
    static TRP_FN constexpr T max() noexcept
    {
        return T(((((T(1) << (digits - 1)) - 1) << 1) + 1));
    }
    static TRP_FN constexpr T min() noexcept
    {
        return is_signed ? T(-max() - 1) : T(0);
    }
    static TRP_FN constexpr T lowest() noexcept
    {
        return min();
    }
    static TRP_FN constexpr T infinity() noexcept
    {
        return T();
    }
};
template <class T> struct trp_limits<T, 2> {
    static constexpr bool is_specialized = true;
    static constexpr bool is_integer = false;
    static constexpr bool is_signed = true;
    static constexpr bool has_infinity = true;
    static constexpr int digits = sizeof(T) == 4 ? 24 : 53;
    static TRP_FN constexpr T max() noexcept
    {
        return sizeof(T) == 4 ? T(3.40282346638528859812e+38f) : T(1.79769313486231570815e+308);
    }
    static TRP_FN constexpr T min() noexcept
    {
        return sizeof(T) == 4 ? T(1.17549435082228750797e-38f) : T(2.22507385850720138309e-308);
    }
    static TRP_FN constexpr T lowest() noexcept
    {
        return -max();
    }
    static TRP_FN constexpr T epsilon() noexcept
    {
        return sizeof(T) == 4 ? T(1.1920928955078125e-07f) : T(2.220446049250313080847e-16);
    }
    static TRP_FN constexpr T infinity() noexcept
    {
        return T(__builtin_huge_val());
    }
    static TRP_FN constexpr T quiet_NaN() noexcept
    {
        return T(__builtin_nan(""));
    }
};
template <class T> struct numeric_limits : trp_limits<T> {
};
