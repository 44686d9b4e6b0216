/* Defines the parts of cuda::std that CUTLASS uses: with all of it a GEMM for sm_90a takes longer
 * to compile, most of it in tuple_element. The headers cuda/std/NAME beside this file all include
 * this one and are found before NVIDIA's. Names and meanings are the C++ standard's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TRP_CUTLASS_STD_H
#define TRP_CUTLASS_STD_H

using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;
using intptr_t = long;
using uintptr_t = unsigned long;
using ptrdiff_t = decltype((char *)0 - (char *)0);

#define UINT64_C(value) value##ull
#ifndef INT_MIN
#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#endif

/* The kernels are compiled with NDEBUG: an assert is a call that keeps wgmma from overlapping. */
#ifndef assert
#define assert(condition) ((void)0)
#endif

#define TRP_FN __forceinline__ __host__ __device__

namespace cuda
{
namespace std
{

using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::intptr_t;
using ::ptrdiff_t;
using ::size_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintptr_t;
using nullptr_t = decltype(nullptr);

/* Constants. */

template <class T, T V> struct integral_constant {
    static constexpr T value = V;
    using value_type = T;
    using type = integral_constant;
    TRP_FN constexpr operator T() const noexcept
    {
        return V;
    }
    TRP_FN constexpr T operator()() const noexcept
    {
        return V;
    }
};
template <bool B> using bool_constant = integral_constant<bool, B>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <class...> using void_t = void;

template <bool B, class T = void> struct enable_if {
};
template <class T> struct enable_if<true, T> {
    using type = T;
};
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;

template <bool B, class T, class F> struct conditional {
    using type = T;
};
template <class T, class F> struct conditional<false, T, F> {
    using type = F;
};
template <bool> struct trp_choose {
    template <class T, class F> using type = T;
};
template <> struct trp_choose<false> {
    template <class T, class F> using type = F;
};
template <bool B, class T, class F>
using conditional_t = typename trp_choose<B>::template type<T, F>;

template <class...> struct conjunction : true_type {
};
template <class T> struct conjunction<T> : T {
};
template <class T, class... R>
struct conjunction<T, R...> : conditional_t<bool(T::value), conjunction<R...>, T> {
};
template <class... T> inline constexpr bool conjunction_v = conjunction<T...>::value;
template <class...> struct disjunction : false_type {
};
template <class T> struct disjunction<T> : T {
};
template <class T, class... R>
struct disjunction<T, R...> : conditional_t<bool(T::value), T, disjunction<R...>> {
};
template <class... T> inline constexpr bool disjunction_v = disjunction<T...>::value;
template <class T> struct negation : bool_constant<!bool(T::value)> {
};
template <class T> inline constexpr bool negation_v = !bool(T::value);

/* Types made of types. */

template <class T> struct remove_const {
    using type = T;
};
template <class T> struct remove_const<T const> {
    using type = T;
};
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> struct remove_volatile {
    using type = T;
};
template <class T> struct remove_volatile<T volatile> {
    using type = T;
};
template <class T> using remove_volatile_t = typename remove_volatile<T>::type;
template <class T> struct remove_cv {
    using type = T;
};
template <class T> struct remove_cv<T const> {
    using type = T;
};
template <class T> struct remove_cv<T volatile> {
    using type = T;
};
template <class T> struct remove_cv<T const volatile> {
    using type = T;
};
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> struct remove_reference {
    using type = T;
};
template <class T> struct remove_reference<T &> {
    using type = T;
};
template <class T> struct remove_reference<T &&> {
    using type = T;
};
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> struct remove_cvref {
    using type = remove_cv_t<remove_reference_t<T>>;
};
template <class T> using remove_cvref_t = remove_cv_t<remove_reference_t<T>>;
template <class T> struct add_const {
    using type = T const;
};
template <class T> using add_const_t = T const;
template <class T> struct remove_pointer {
    using type = T;
};
template <class T> struct remove_pointer<T *> {
    using type = T;
};
template <class T> struct remove_pointer<T *const> {
    using type = T;
};
template <class T> using remove_pointer_t = typename remove_pointer<T>::type;
template <class T> struct add_pointer {
    using type = remove_reference_t<T> *;
};
template <class T> using add_pointer_t = remove_reference_t<T> *;
template <class T> struct remove_extent {
    using type = T;
};
template <class T> struct remove_extent<T[]> {
    using type = T;
};
template <class T, size_t N> struct remove_extent<T[N]> {
    using type = T;
};
template <class T> using remove_extent_t = typename remove_extent<T>::type;

template <class T, class = void> struct trp_rvalue {
    using type = T;
};
template <class T> struct trp_rvalue<T, void_t<T &&>> {
    using type = T &&;
};
template <class T> using add_rvalue_reference_t = typename trp_rvalue<T>::type;
template <class T> TRP_FN typename trp_rvalue<T>::type declval() noexcept;

/* Questions about types. */

template <class T, class U> struct is_same : false_type {
};
template <class T> struct is_same<T, T> : true_type {
};
template <class T, class U> inline constexpr bool is_same_v = false;
template <class T> inline constexpr bool is_same_v<T, T> = true;

#define TRP_TRAIT(name, ...)                                                                       \
    template <class T> struct name : bool_constant<(__VA_ARGS__)> {                                \
    };                                                                                             \
    template <class T> inline constexpr bool name##_v = (__VA_ARGS__);

TRP_TRAIT(is_empty, __is_empty(T))
TRP_TRAIT(is_enum, __is_enum(T))
TRP_TRAIT(is_class, __is_class(T))
TRP_TRAIT(is_union, __is_union(T))
TRP_TRAIT(is_trivial, __is_trivial(T))
TRP_TRAIT(is_trivially_copyable, __is_trivially_copyable(T))
TRP_TRAIT(is_standard_layout, __is_standard_layout(T))
TRP_TRAIT(is_default_constructible, __is_constructible(T))
TRP_TRAIT(is_void, is_same_v<remove_cv_t<T>, void>)

template <class B, class D> struct is_base_of : bool_constant<__is_base_of(B, D)> {
};
template <class B, class D> inline constexpr bool is_base_of_v = __is_base_of(B, D);
template <class F, class T> struct is_convertible : bool_constant<__is_convertible_to(F, T)> {
};
template <class F, class T> inline constexpr bool is_convertible_v = __is_convertible_to(F, T);
template <class T, class... A>
struct is_constructible : bool_constant<__is_constructible(T, A...)> {
};
template <class T, class... A>
inline constexpr bool is_constructible_v = __is_constructible(T, A...);
template <class T, class A> struct is_assignable : bool_constant<__is_assignable(T, A)> {
};

template <class T> inline constexpr bool is_const_v = false;
template <class T> inline constexpr bool is_const_v<T const> = true;
template <class T> struct is_const : bool_constant<is_const_v<T>> {
};
template <class T> inline constexpr bool is_volatile_v = false;
template <class T> inline constexpr bool is_volatile_v<T volatile> = true;
template <class T> struct is_volatile : bool_constant<is_volatile_v<T>> {
};
template <class T> inline constexpr bool is_lvalue_reference_v = false;
template <class T> inline constexpr bool is_lvalue_reference_v<T &> = true;
template <class T> struct is_lvalue_reference : bool_constant<is_lvalue_reference_v<T>> {
};
template <class T> inline constexpr bool is_reference_v = false;
template <class T> inline constexpr bool is_reference_v<T &> = true;
template <class T> inline constexpr bool is_reference_v<T &&> = true;
template <class T> struct is_reference : bool_constant<is_reference_v<T>> {
};
template <class T> inline constexpr bool trp_is_pointer = false;
template <class T> inline constexpr bool trp_is_pointer<T *> = true;
TRP_TRAIT(is_pointer, trp_is_pointer<remove_cv_t<T>>)
template <class T> inline constexpr bool is_array_v = false;
template <class T> inline constexpr bool is_array_v<T[]> = true;
template <class T, size_t N> inline constexpr bool is_array_v<T[N]> = true;
template <class T> struct is_array : bool_constant<is_array_v<T>> {
};
TRP_TRAIT(is_function, __is_function(T))
template <class T, unsigned = 0> struct extent : integral_constant<size_t, 0> {
};
template <class T, size_t N> struct extent<T[N], 0> : integral_constant<size_t, N> {
};
template <class T> struct alignment_of : integral_constant<size_t, alignof(T)> {
};
template <class T> inline constexpr size_t alignment_of_v = alignof(T);

/* Properties of arithmetic types: whether it is an integer, and its counterpart of other
 * signedness. An enum, because a static constant becomes a global of the image, used or not. */
template <class T> struct trp_number {
    enum { kind = 0 };
};
#define TRP_INTEGER(t, s, u)                                                                       \
    template <> struct trp_number<t> {                                                             \
        enum { kind = 1 };                                                                         \
        using with_sign = s;                                                                       \
        using without_sign = u;                                                                    \
    };
TRP_INTEGER(bool, signed char, unsigned char)
TRP_INTEGER(char, signed char, unsigned char)
TRP_INTEGER(signed char, signed char, unsigned char)
TRP_INTEGER(unsigned char, signed char, unsigned char)
TRP_INTEGER(short, short, unsigned short)
TRP_INTEGER(unsigned short, short, unsigned short)
TRP_INTEGER(int, int, unsigned)
TRP_INTEGER(unsigned, int, unsigned)
TRP_INTEGER(long, long, unsigned long)
TRP_INTEGER(unsigned long, long, unsigned long)
TRP_INTEGER(long long, long long, unsigned long long)
TRP_INTEGER(unsigned long long, long long, unsigned long long)
TRP_INTEGER(wchar_t, int, unsigned)
TRP_INTEGER(char16_t, short, unsigned short)
TRP_INTEGER(char32_t, int, unsigned)
#undef TRP_INTEGER
template <> struct trp_number<float> {
    enum { kind = 2 };
};
template <> struct trp_number<double> {
    enum { kind = 2 };
};

TRP_TRAIT(is_integral, trp_number<remove_cv_t<T>>::kind == 1)
TRP_TRAIT(is_floating_point, trp_number<remove_cv_t<T>>::kind == 2)
TRP_TRAIT(is_arithmetic, trp_number<remove_cv_t<T>>::kind != 0)
TRP_TRAIT(is_fundamental, is_arithmetic_v<T> || is_void_v<T> || is_same_v<T, nullptr_t>)

template <class T, bool = is_arithmetic_v<T>> inline constexpr bool trp_is_signed = T(-1) < T(0);
template <class T> inline constexpr bool trp_is_signed<T, false> = false;
TRP_TRAIT(is_signed, trp_is_signed<remove_cv_t<T>>)
TRP_TRAIT(is_unsigned, is_arithmetic_v<T> && !trp_is_signed<remove_cv_t<T>>)
#undef TRP_TRAIT

template <class T> struct make_signed {
    using type = typename trp_number<T>::with_sign;
};
template <class T> using make_signed_t = typename trp_number<T>::with_sign;
template <class T> struct make_unsigned {
    using type = typename trp_number<T>::without_sign;
};
template <class T> using make_unsigned_t = typename trp_number<T>::without_sign;

template <class T, bool = is_array_v<T>, bool = __is_function(T)> struct trp_decayed {
    using type = remove_cv_t<T>;
};
template <class T> struct trp_decayed<T, true, false> {
    using type = remove_extent_t<T> *;
};
template <class T> struct trp_decayed<T, false, true> {
    using type = T *;
};
template <class T> struct decay : trp_decayed<remove_reference_t<T>> {
};
template <class T> using decay_t = typename decay<T>::type;

template <class...> struct common_type;
template <class T> struct common_type<T> {
    using type = decay_t<T>;
};
template <class T, class U> struct common_type<T, U> {
    using type = decay_t<decltype(true ? declval<T>() : declval<U>())>;
};
template <class T, class U, class... R>
struct common_type<T, U, R...> : common_type<typename common_type<T, U>::type, R...> {
};
template <class... T> using common_type_t = typename common_type<T...>::type;

/* Calls of objects; those of members are not used. */
template <class F, class... A> struct invoke_result {
    using type = decltype(declval<F>()(declval<A>()...));
};
template <class F, class... A> using invoke_result_t = typename invoke_result<F, A...>::type;

template <class T, bool = __is_enum(T)> struct underlying_type {
    using type = __underlying_type(T);
};
template <class T> struct underlying_type<T, false> {
};
template <class T> using underlying_type_t = typename underlying_type<T>::type;

/* Values. */

template <class T> TRP_FN constexpr remove_reference_t<T> &&move(T &&t) noexcept
{
    return static_cast<remove_reference_t<T> &&>(t);
}
template <class T> TRP_FN constexpr T &&forward(remove_reference_t<T> &t) noexcept
{
    return static_cast<T &&>(t);
}
template <class T> TRP_FN constexpr T &&forward(remove_reference_t<T> &&t) noexcept
{
    return static_cast<T &&>(t);
}
template <class T> TRP_FN constexpr void swap(T &a, T &b)
{
    T t = static_cast<T &&>(a);
    a = static_cast<T &&>(b);
    b = static_cast<T &&>(t);
}
template <class T> TRP_FN constexpr T const &max(T const &a, T const &b)
{
    return a < b ? b : a;
}
template <class T> TRP_FN constexpr T const &min(T const &a, T const &b)
{
    return b < a ? b : a;
}
template <class T> TRP_FN T *addressof(T &t)
{
    return &t;
}

/* Sequences. Short ones, nearly all of them, are written out. */

template <class T, T... I> struct integer_sequence {
    using value_type = T;
    static TRP_FN constexpr size_t size() noexcept
    {
        return sizeof...(I);
    }
};
template <size_t... I> using index_sequence = integer_sequence<size_t, I...>;

template <int... I> struct trp_indices {
    template <class T> using as = integer_sequence<T, T(I)...>;
    template <int N> using twice = trp_indices<I..., N + I...>;
    template <int N> using more = trp_indices<I..., N>;
};
template <int N, bool Odd = N % 2> struct trp_count {
    using type = typename trp_count<N / 2>::type::template twice<N / 2>;
};
template <int N> struct trp_count<N, true> {
    using type = typename trp_count<N - 1>::type::template more<N - 1>;
};
template <> struct trp_count<0, false> {
    using type = trp_indices<>;
};
template <> struct trp_count<1, true> {
    using type = trp_indices<0>;
};
template <> struct trp_count<2, false> {
    using type = trp_indices<0, 1>;
};
template <> struct trp_count<3, true> {
    using type = trp_indices<0, 1, 2>;
};
template <> struct trp_count<4, false> {
    using type = trp_indices<0, 1, 2, 3>;
};
template <> struct trp_count<5, true> {
    using type = trp_indices<0, 1, 2, 3, 4>;
};
template <> struct trp_count<6, false> {
    using type = trp_indices<0, 1, 2, 3, 4, 5>;
};
template <> struct trp_count<7, true> {
    using type = trp_indices<0, 1, 2, 3, 4, 5, 6>;
};
template <> struct trp_count<8, false> {
    using type = trp_indices<0, 1, 2, 3, 4, 5, 6, 7>;
};
template <class T, T N>
using make_integer_sequence = typename trp_count<int(N)>::type::template as<T>;
template <size_t N> using make_index_sequence = make_integer_sequence<size_t, N>;
template <class... T> using index_sequence_for = make_index_sequence<sizeof...(T)>;

/* Tuples. The Nth of some types takes one class, and no search through specialisations. */

template <size_t I> struct trp_nth {
    template <class T0, class T1, class T2, class T3, class T4, class T5, class T6, class T7,
              class... R>
    struct of {
        using type = typename trp_nth<I - 8>::template of<R...>::type;
    };
};
template <> struct trp_nth<0> {
    template <class T, class... R> struct of {
        using type = T;
    };
};
template <> struct trp_nth<1> {
    template <class T0, class T, class... R> struct of {
        using type = T;
    };
};
template <> struct trp_nth<2> {
    template <class T0, class T1, class T, class... R> struct of {
        using type = T;
    };
};
template <> struct trp_nth<3> {
    template <class T0, class T1, class T2, class T, class... R> struct of {
        using type = T;
    };
};
template <> struct trp_nth<4> {
    template <class T0, class T1, class T2, class T3, class T, class... R> struct of {
        using type = T;
    };
};
template <> struct trp_nth<5> {
    template <class T0, class T1, class T2, class T3, class T4, class T, class... R> struct of {
        using type = T;
    };
};
template <> struct trp_nth<6> {
    template <class T0, class T1, class T2, class T3, class T4, class T5, class T, class... R>
    struct of {
        using type = T;
    };
};
template <> struct trp_nth<7> {
    template <class T0, class T1, class T2, class T3, class T4, class T5, class T6, class T,
              class... R>
    struct of {
        using type = T;
    };
};

template <class... T> struct tuple; /* only pairs are ever made */
template <class T, class U> struct tuple<T, U> {
    T first;
    U second;
    TRP_FN constexpr tuple(T const &t, U const &u) : first(t), second(u)
    {
    }
};
template <size_t I, class T, class U> TRP_FN constexpr auto const &get(tuple<T, U> const &t)
{
    if constexpr (I == 0)
        return t.first;
    else
        return t.second;
}
template <class T, class U> struct pair {
    T first;
    U second;
};

template <class T> struct tuple_size;
template <class... T> struct tuple_size<tuple<T...>> : integral_constant<size_t, sizeof...(T)> {
};
template <class T> struct tuple_size<T const> : tuple_size<T> {
};
template <class T> inline constexpr size_t tuple_size_v = tuple_size<T>::value;

template <size_t I, class T> struct tuple_element;
template <size_t I, class... T> struct tuple_element<I, tuple<T...>> {
    using type = typename trp_nth<I>::template of<T...>::type;
};
template <size_t I, class T> struct tuple_element<I, T const> {
    using type = typename tuple_element<I, T>::type const;
};
template <size_t I, class T> using tuple_element_t = typename tuple_element<I, T>::type;

#include "troupe_std_limits.h"

} // namespace std
} // namespace cuda

/* CUTLASS says std where it means either of the two, in code that NVRTC sees. */
namespace std
{
using namespace cuda::std;
}

#undef TRP_FN
#endif
