/* cute::tuple once more, in place of CuTe's own, which most of the time of a compile goes into: the
 * Nth type is found without a search, no variable templates (each of which ends as a global of the
 * image), and tuples of constants, nearly all that there are, have no storage to instantiate.
 * Names, and what they mean, are CuTe's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cute/config.hpp>
#include <cute/util/type_traits.hpp>
#include <cute/numeric/integral_constant.hpp>
#include <cute/numeric/integer_sequence.hpp>

#include <cute/container/cuda_types.hpp>
#include <cute/container/type_list.hpp>

namespace cute {

template <class... T> struct tuple;

namespace trp {

template <size_t I, class... T>
using nth = typename cuda::std::trp_nth<I>::template of<T...>::type;

/* What is not empty, in order; what is empty is made anew by each get(). */
template <bool FirstEmpty, bool RestEmpty, class First, class... Rest> struct part;

template <class First, class... Rest>
using part_of = part<__is_empty(First), (__is_empty(Rest) && ...), First, Rest...>;

template <class First, class... Rest> struct part<false, true, First, Rest...> {
    First first_;
    CUTE_HOST_DEVICE constexpr part() : first_{} {}
    CUTE_HOST_DEVICE constexpr part(First const &first, Rest const &...) : first_{first} {}
};

template <class First, class... Rest> struct part<true, false, First, Rest...> {
    part_of<Rest...> rest_;
    CUTE_HOST_DEVICE constexpr part() : rest_{} {}
    CUTE_HOST_DEVICE constexpr part(First const &, Rest const &...rest) : rest_{rest...} {}
};

template <class First, class... Rest> struct part<false, false, First, Rest...> {
    First first_;
    part_of<Rest...> rest_;
    CUTE_HOST_DEVICE constexpr part() : first_{}, rest_{} {}
    CUTE_HOST_DEVICE constexpr part(First const &first, Rest const &...rest)
        : first_{first}, rest_{rest...}
    {
    }
};

template <class... T> struct empty_parts {
    CUTE_HOST_DEVICE constexpr empty_parts() {}
    CUTE_HOST_DEVICE constexpr empty_parts(T const &...) {}
};
template <> struct empty_parts<> {};

template <bool Empty, class... T> struct parts {
    using type = part_of<T...>;
};
template <class... T> struct parts<true, T...> {
    using type = empty_parts<T...>;
};

template <size_t I, class P> CUTE_HOST_DEVICE constexpr auto &at(P &p) noexcept
{
    if constexpr (I == 0)
        return p.first_;
    else if constexpr (I == 1)
        return p.rest_.first_;
    else if constexpr (I == 2)
        return p.rest_.rest_.first_;
    else
        return trp::at<I - 3>(p.rest_.rest_.rest_);
    CUTE_GCC_UNREACHABLE;
}

} // namespace trp

template <class... T> struct tuple : trp::parts<(__is_empty(T) && ...), T...>::type {
    using trp_parts = typename trp::parts<(__is_empty(T) && ...), T...>::type;
    CUTE_HOST_DEVICE constexpr tuple() {}
    CUTE_HOST_DEVICE constexpr tuple(T const &...t) : trp_parts(t...) {}
};

template <> struct tuple<> {};

template <class... T> CUTE_HOST_DEVICE constexpr tuple<T...> make_tuple(T const &...t)
{
    return {t...};
}

template <size_t I, class... T>
CUTE_HOST_DEVICE constexpr decltype(auto) get(tuple<T...> const &t) noexcept
{
    static_assert(I < sizeof...(T), "a tuple has no such element");
    if constexpr (__is_empty(trp::nth<I, T...>))
        return trp::nth<I, T...>{};
    else
        return trp::at<I>(static_cast<typename tuple<T...>::trp_parts const &>(t));
    CUTE_GCC_UNREACHABLE;
}

template <size_t I, class... T>
CUTE_HOST_DEVICE constexpr decltype(auto) get(tuple<T...> &t) noexcept
{
    static_assert(I < sizeof...(T), "a tuple has no such element");
    if constexpr (__is_empty(trp::nth<I, T...>))
        return trp::nth<I, T...>{};
    else
        return trp::at<I>(static_cast<typename tuple<T...>::trp_parts &>(t));
    CUTE_GCC_UNREACHABLE;
}

template <size_t I, class... T>
CUTE_HOST_DEVICE constexpr decltype(auto) get(tuple<T...> &&t) noexcept
{
    static_assert(I < sizeof...(T), "a tuple has no such element");
    if constexpr (__is_empty(trp::nth<I, T...>))
        return trp::nth<I, T...>{};
    else
        return static_cast<trp::nth<I, T...> &&>(
            trp::at<I>(static_cast<typename tuple<T...>::trp_parts &>(t)));
    CUTE_GCC_UNREACHABLE;
}

template <class X, class... T>
CUTE_HOST_DEVICE constexpr auto find(tuple<T...> const &) noexcept
{
    return cute::C<find_true_v<cute::is_same_v<X, T>...>>{};
}

/* Whatever has a tuple_size is a tuple. */
namespace detail {

template <class T> auto has_tuple_size(T *) -> bool_constant<(0 <= tuple_size<T>::value)>;
auto has_tuple_size(...) -> false_type;

} // namespace detail

template <class T> struct is_tuple : decltype(detail::has_tuple_size((T *)0)) {};
template <class... T> struct is_tuple<tuple<T...>> : true_type {};
template <auto v> struct is_tuple<C<v>> : false_type {};
template <> struct is_tuple<int> : false_type {};

template <class T> static constexpr bool is_tuple_v = cute::is_tuple<T>::value;

/* tuple_cat() */

namespace trp {

template <class A, class B> struct joined;
template <class... A, class... B> struct joined<tuple<A...>, tuple<B...>> {
    using type = tuple<A..., B...>;
};

template <class A, class B, size_t... I, size_t... J>
CUTE_HOST_DEVICE constexpr auto join(A const &a, B const &b, index_sequence<I...>,
                                     index_sequence<J...>)
{
    return cute::make_tuple(get<I>(a)..., get<J>(b)...);
}

} // namespace trp

CUTE_HOST_DEVICE constexpr tuple<> tuple_cat()
{
    return {};
}

template <class A, __CUTE_REQUIRES(is_tuple<A>::value)>
CUTE_HOST_DEVICE constexpr A const &tuple_cat(A const &a)
{
    return a;
}

template <class A, class B> CUTE_HOST_DEVICE constexpr auto tuple_cat(A const &a, B const &b)
{
    if constexpr (__is_empty(A) && __is_empty(B) && is_tuple<A>::value && is_tuple<B>::value)
        return typename trp::joined<A, B>::type{};
    else
        return trp::join(a, b, make_index_sequence<tuple_size<A>::value>{},
                         make_index_sequence<tuple_size<B>::value>{});
    CUTE_GCC_UNREACHABLE;
}

template <class A, class B, class D, class... R>
CUTE_HOST_DEVICE constexpr auto tuple_cat(A const &a, B const &b, D const &d, R const &...r)
{
    return cute::tuple_cat(cute::tuple_cat(a, b), d, r...);
}

/* == and !=: a static integer where it can be told from the types. */

namespace detail {

template <class A, class B, size_t... I>
CUTE_HOST_DEVICE constexpr auto equal_impl(A const &a, B const &b, index_sequence<I...>)
{
    return (cute::true_type{} && ... && (get<I>(a) == get<I>(b)));
}

} // namespace detail

template <class A, class B, __CUTE_REQUIRES(is_tuple<A>::value &&is_tuple<B>::value)>
CUTE_HOST_DEVICE constexpr auto operator==(A const &a, B const &b)
{
    if constexpr (tuple_size<A>::value == tuple_size<B>::value)
        return detail::equal_impl(a, b, make_index_sequence<tuple_size<A>::value>{});
    else
        return cute::false_type{};
    CUTE_GCC_UNREACHABLE;
}

template <class A, class B, __CUTE_REQUIRES(is_tuple<A>::value ^ is_tuple<B>::value)>
CUTE_HOST_DEVICE constexpr auto operator==(A const &, B const &)
{
    return cute::false_type{};
}

template <class A, class B, __CUTE_REQUIRES(is_tuple<A>::value &&is_tuple<B>::value)>
CUTE_HOST_DEVICE constexpr auto operator!=(A const &a, B const &b)
{
    return !(a == b);
}

template <class A, class B, __CUTE_REQUIRES(is_tuple<A>::value ^ is_tuple<B>::value)>
CUTE_HOST_DEVICE constexpr auto operator!=(A const &, B const &)
{
    return cute::true_type{};
}

/* Kernels print nothing. */
template <class T, __CUTE_REQUIRES(is_tuple<T>::value)> CUTE_HOST_DEVICE void print(T const &)
{
}

} // namespace cute

namespace cuda {
namespace std {

template <class... T>
struct tuple_size<cute::tuple<T...>> : integral_constant<size_t, sizeof...(T)> {};
template <size_t I, class... T> struct tuple_element<I, cute::tuple<T...>> {
    using type = typename trp_nth<I>::template of<T...>::type;
};

} // namespace std
} // namespace cuda

/* For `auto [a, b] = tuple`; also of a const one, as epilogue trees write it. */
namespace std {

template <class... T> struct tuple_size;
template <size_t I, class... T> struct tuple_element;

template <class... T>
struct tuple_size<cute::tuple<T...>> : cuda::std::integral_constant<size_t, sizeof...(T)> {};
template <class... T>
struct tuple_size<cute::tuple<T...> const> : cuda::std::integral_constant<size_t, sizeof...(T)> {};
template <size_t I, class... T> struct tuple_element<I, cute::tuple<T...>> {
    using type = typename cuda::std::trp_nth<I>::template of<T...>::type;
};
template <size_t I, class... T> struct tuple_element<I, cute::tuple<T...> const> {
    using type = typename cuda::std::trp_nth<I>::template of<T...>::type const;
};

} // namespace std
