/* Troupe for C++17: the same calls, with objects that end by themselves.
 *
 * Objects are move-only, and each holds what it lives in: an actor its device, a device its system.
 * So they may be destroyed in any order, members of a class and globals too; the device is closed
 * when the last of its actors and buffers is gone. A moved-from object is empty.
 *
 * Errors are exceptions (trp::error, which has the whole trp_error). Programs without exceptions
 * use the form with std::nothrow: constructors have a static function make(std::nothrow, ...),
 * other calls an overload; both give a trp::expected, and throw std::bad_alloc only. Destructors
 * never throw and never report.
 *
 * A trp::span is a pointer and a number of elements: arrays, std::vector, std::array and
 * initialiser lists become one. Calls that return a future do not wait; the memory that they were
 * given must stay until it has ended. All other calls have waited.
 *
 * Any thread may call any object, except that one object is moved or destroyed by one thread alone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_TROUPE_HPP
#define TROUPE_TROUPE_HPP

#include <troupe/troupe.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <unistd.h>
#include <vector>

namespace trp {

/* An error of a call. what() is the message; the record has the rest. */
class error : public std::runtime_error {
public:
    explicit error(const trp_error &record) : std::runtime_error(record.message), record_(record) {}
    trp_status status() const noexcept { return record_.status; }
    const trp_error &record() const noexcept { return record_; }

private:
    trp_error record_;
};

/* Throws what the last call of this thread has failed with. */
inline void check(trp_status status)
{
    if (status != TRP_OK)
        throw error(*trp_error_last());
}

/* A value, or the error in its place. */
template <class T> class expected {
public:
    expected(T &&value) : value_(std::move(value)), error_() {}
    expected(const trp_error &error) : error_(error) {}
    explicit operator bool() const noexcept { return value_.has_value(); }
    /* Only of one that has a value. */
    T &operator*() noexcept { return *value_; }
    T *operator->() noexcept { return &*value_; }
    /* All zero for a value. */
    const trp_error &error() const noexcept { return error_; }
    T &&value() &&
    {
        if (!value_)
            throw trp::error(error_);
        return std::move(*value_);
    }

private:
    std::optional<T> value_;
    trp_error error_;
};

#if defined(__GNUC__) && !defined(__clang__) /* a span is meant not to extend it */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
#endif

/* Elements one after the other. Does not own them: one of an initialiser list lasts as long as the
 * expression that it stands in. */
template <class T> class span {
public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <std::size_t N> constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
    constexpr span(std::initializer_list<std::remove_const_t<T>> list) noexcept
        : data_(list.begin()), size_(list.size())
    {
    }
    template <class C, class = std::enable_if_t<
                           std::is_convertible_v<decltype(std::declval<C &>().data()), T *> &&
                           std::is_convertible_v<decltype(std::declval<C &>().size()), std::size_t>>>
    constexpr span(C &&container) noexcept : data_(container.data()), size_(container.size())
    {
    }
    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr std::uint64_t bytes() const noexcept { return std::uint64_t(size_) * sizeof(T); }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t i) const noexcept { return data_[i]; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/* The trp_dtype of a type of C++. */
template <class T> struct dtype;
template <> struct dtype<double> { static constexpr trp_dtype value = TRP_F64; };
template <> struct dtype<float> { static constexpr trp_dtype value = TRP_F32; };
template <> struct dtype<std::int8_t> { static constexpr trp_dtype value = TRP_I8; };
template <> struct dtype<std::int32_t> { static constexpr trp_dtype value = TRP_I32; };
template <> struct dtype<std::int64_t> { static constexpr trp_dtype value = TRP_I64; };
template <> struct dtype<std::uint8_t> { static constexpr trp_dtype value = TRP_U8; };
template <> struct dtype<bool> { static constexpr trp_dtype value = TRP_BOOL; };
template <> struct dtype<std::complex<float>> { static constexpr trp_dtype value = TRP_C64; };
template <> struct dtype<std::complex<double>> { static constexpr trp_dtype value = TRP_C128; };
template <class T> inline constexpr trp_dtype dtype_v = dtype<std::remove_cv_t<T>>::value;

/* A request that is filled in where it is made, all else zero:
 *     trp::request<trp_gemm_request>([&](auto &r) { r.m = 2; }) */
template <class Request, class Fill> Request request(Fill &&fill)
{
    Request r{};
    std::forward<Fill>(fill)(r);
    return r;
}

namespace detail {

struct close_system {
    void operator()(trp_system *s) const noexcept { trp_system_destroy(s); }
};

/* Closed before the system that it holds is let go. */
struct device_state {
    std::shared_ptr<trp_system> system;
    trp_device *device = nullptr;
    device_state() = default;
    device_state(const device_state &) = delete;
    device_state &operator=(const device_state &) = delete;
    ~device_state() { trp_device_close(device); }
};

/* The object, or the error that making it has failed with. */
template <class T> expected<T> result(trp_status status, T &&value)
{
    if (status != TRP_OK)
        return expected<T>(*trp_error_last());
    return expected<T>(std::move(value));
}

} // namespace detail

/* The root object; see trp_system_create(). */
class system {
public:
    explicit system(const trp_system_options &options = {}) { check(create(options)); }
    static expected<system> make(std::nothrow_t, const trp_system_options &options = {})
    {
        system s{empty{}};
        trp_status status = s.create(options);
        return detail::result(status, std::move(s));
    }
    system(system &&) noexcept = default;
    system &operator=(system &&) noexcept = default;
    trp_system *get() const noexcept { return state_.get(); }

private:
    friend class device;
    friend class queue;
    struct empty {};
    explicit system(empty) noexcept {}
    trp_status create(const trp_system_options &options)
    {
        trp_system *made = nullptr;
        trp_status status = trp_system_create(&options, &made);
        if (status == TRP_OK)
            state_.reset(made, detail::close_system());
        return status;
    }
    std::shared_ptr<trp_system> state_;
};

/* The end of one request. Dropped if it is not awaited. */
class future {
public:
    future() noexcept = default;
    explicit future(trp_future f) noexcept : future_(f) {}
    future(future &&other) noexcept : future_(std::exchange(other.future_, trp_future{})) {}
    future &operator=(future &&other) noexcept
    {
        if (this != &other) {
            drop();
            future_ = std::exchange(other.future_, trp_future{});
        }
        return *this;
    }
    ~future() { drop(); }

    /* Waits; throws what the request, or the waiting, has failed with. TRP_E_TIMEOUT leaves the
     * future as it is. Nothing to wait for is done at once. */
    void await(std::int64_t timeout_ns = TRP_FOREVER)
    {
        trp_error e;
        if (await(std::nothrow, timeout_ns, &e) != TRP_OK)
            throw error(e);
    }
    trp_status await(std::nothrow_t, std::int64_t timeout_ns = TRP_FOREVER,
                     trp_error *e = nullptr) noexcept
    {
        if (future_.id == 0)
            return TRP_OK;
        trp_status status = trp_await(future_, timeout_ns, e);
        if (status != TRP_E_TIMEOUT)
            future_ = trp_future{};
        return status;
    }
    /* Asks that it shall not run; see trp_cancel(). */
    trp_status cancel() noexcept { return trp_cancel(future_); }
    trp_future get() const noexcept { return future_; }
    /* Gives the future away: the caller ends it. */
    trp_future release() noexcept { return std::exchange(future_, trp_future{}); }

private:
    void drop() noexcept
    {
        if (future_.id != 0)
            trp_future_drop(future_);
    }
    trp_future future_{};
};

class device;

/* A buffer's bytes in the program's address space, until the object ends; see trp_buffer_map() for
 * when they may be touched. Keeps device and buffer alive. */
class mapping {
public:
    mapping() noexcept = default;
    mapping(mapping &&other) noexcept { *this = std::move(other); }
    mapping &operator=(mapping &&other) noexcept
    {
        if (this != &other) {
            unmap();
            state_ = std::move(other.state_);
            buffer_ = other.buffer_;
            memory_ = std::exchange(other.memory_, nullptr);
            bytes_ = std::exchange(other.bytes_, 0);
        }
        return *this;
    }
    ~mapping() { unmap(); }
    void *data() const noexcept { return memory_; }
    std::uint64_t bytes() const noexcept { return bytes_; }
    /* All whole elements; const ones of a sealed buffer, which is mapped read-only. */
    template <class T> span<T> as() const noexcept
    {
        return {static_cast<T *>(memory_), static_cast<std::size_t>(bytes_ / sizeof(T))};
    }

private:
    friend class buffer;
    mapping(std::shared_ptr<detail::device_state> state, trp_buffer b) : state_(std::move(state)), buffer_(b)
    {
        trp_buffer_info info{};
        check(trp_buffer_get_info(state_ ? state_->device : nullptr, b, &info));
        check(trp_buffer_map(state_->device, b, &memory_));
        bytes_ = info.bytes;
    }
    void unmap() noexcept
    {
        if (memory_)
            trp_buffer_unmap(state_->device, buffer_, memory_);
        memory_ = nullptr;
    }
    std::shared_ptr<detail::device_state> state_;
    trp_buffer buffer_{};
    void *memory_ = nullptr;
    std::uint64_t bytes_ = 0;
};

/* Result of trp_buffer_export(); its descriptors are closed with the object. */
class exported_buffer {
public:
    exported_buffer() noexcept { out_.fd = out_.timeline_fd = -1; }
    exported_buffer(exported_buffer &&other) noexcept : exported_buffer() { swap(other); }
    exported_buffer &operator=(exported_buffer &&other) noexcept
    {
        exported_buffer taken(std::move(other));
        swap(taken);
        return *this;
    }
    ~exported_buffer()
    {
        if (out_.fd >= 0)
            ::close(out_.fd);
        if (out_.timeline_fd >= 0)
            ::close(out_.timeline_fd);
    }
    const trp_exported_buffer &get() const noexcept { return out_; }
    const trp_exported_buffer *operator->() const noexcept { return &out_; }
    /* Gives the descriptor away, to the caller or to a driver that takes it over. */
    int release_fd() noexcept { return std::exchange(out_.fd, -1); }

private:
    friend class buffer;
    void swap(exported_buffer &other) noexcept { std::swap(out_, other.out_); }
    trp_exported_buffer out_{};
};

/* Device memory, freed with the object; what was sent before runs to its end. */
class buffer {
public:
    buffer() noexcept = default;
    buffer(const device &d, std::uint64_t bytes) : buffer(d, sized(bytes)) {}
    buffer(const device &d, const trp_buffer_options &options);
    static expected<buffer> make(std::nothrow_t, const device &d, const trp_buffer_options &options);
    /* Takes over one that a C call has made. */
    buffer(const device &d, trp_buffer made) noexcept;
    buffer(buffer &&other) noexcept
        : state_(std::move(other.state_)), buffer_(std::exchange(other.buffer_, trp_buffer{}))
    {
    }
    buffer &operator=(buffer &&other) noexcept
    {
        if (this != &other) {
            free();
            state_ = std::move(other.state_);
            buffer_ = std::exchange(other.buffer_, trp_buffer{});
        }
        return *this;
    }
    ~buffer() { free(); }
    trp_buffer get() const noexcept { return buffer_; }
    operator trp_buffer() const noexcept { return buffer_; }
    trp_buffer_info info() const
    {
        trp_buffer_info out{};
        check(trp_buffer_get_info(owner(), buffer_, &out));
        return out;
    }
    void seal(std::int64_t timeout_ns = TRP_FOREVER)
    {
        check(trp_buffer_seal(owner(), buffer_, timeout_ns));
    }
    void unseal() { check(trp_buffer_unseal(owner(), buffer_)); }
    /* See trp_buffer_map(): host backend only. */
    mapping map() const { return mapping(state_, buffer_); }
    /* See trp_buffer_export(). */
    exported_buffer exported() const
    {
        exported_buffer made;
        trp_exported_buffer out{};
        check(trp_buffer_export(owner(), buffer_, &out));
        made.out_ = out;
        return made;
    }
    void discard(std::uint64_t offset, std::uint64_t bytes)
    {
        check(trp_buffer_discard(owner(), buffer_, offset, bytes));
    }

private:
    static trp_buffer_options sized(std::uint64_t bytes) noexcept
    {
        trp_buffer_options options{};
        options.bytes = bytes;
        return options;
    }
    trp_device *owner() const noexcept { return state_ ? state_->device : nullptr; }
    void free() noexcept
    {
        if (buffer_.id != 0)
            trp_buffer_free(state_->device, buffer_);
        buffer_ = trp_buffer{};
    }
    std::shared_ptr<detail::device_state> state_;
    trp_buffer buffer_{};
};

/* A device; see trp_device_open(). */
class device {
public:
    explicit device(const system &s, const trp_device_options &options = {})
    {
        check(open(s, options));
    }
    static expected<device> make(std::nothrow_t, const system &s,
                                 const trp_device_options &options = {})
    {
        device d{empty{}};
        trp_status status = d.open(s, options);
        return detail::result(status, std::move(d));
    }
    device(device &&) noexcept = default;
    device &operator=(device &&) noexcept = default;
    trp_device *get() const noexcept { return state_ ? state_->device : nullptr; }

    trp_device_info info() const
    {
        trp_device_info out{};
        check(trp_device_get_info(get(), &out));
        return out;
    }
    void drain(std::int64_t timeout_ns = TRP_FOREVER) { check(trp_device_drain(get(), timeout_ns)); }

    /* A new buffer with these elements, which are there when the call returns. */
    template <class T> buffer upload(span<const T> elements)
    {
        buffer b(*this, elements.bytes());
        put(b, elements);
        return b;
    }
    template <class T> buffer upload(std::initializer_list<T> elements)
    {
        return upload(span<const T>(elements));
    }
    template <class T, std::size_t N> buffer upload(const T (&elements)[N])
    {
        return upload(span<const T>(elements));
    }

    /* Copies; `offset` is in bytes. write() and read() do not wait, put() and fetch() do. */
    template <class T>
    future write(const buffer &to, span<const T> from, std::uint64_t offset = 0)
    {
        trp_completion done{};
        check(trp_write(get(), to.get(), offset, from.data(), from.bytes(), &done));
        return future(done.future);
    }
    template <class T> future read(const buffer &from, span<T> to, std::uint64_t offset = 0)
    {
        trp_completion done{};
        check(trp_read(get(), from.get(), offset, to.data(), to.bytes(), &done));
        return future(done.future);
    }
    template <class T> void put(const buffer &to, span<const T> from, std::uint64_t offset = 0)
    {
        if (from.size() > 0)
            write(to, from, offset).await();
    }
    template <class T>
    std::vector<T> fetch(const buffer &from, std::size_t count, std::uint64_t offset = 0)
    {
        static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no elements in memory");
        std::vector<T> to(count);
        if (count > 0)
            read(from, span<T>(to), offset).await();
        return to;
    }

private:
    friend class actor;
    friend class buffer;
    struct empty {};
    explicit device(empty) noexcept {}
    trp_status open(const system &s, const trp_device_options &options)
    {
        auto state = std::make_shared<detail::device_state>();
        state->system = s.state_;
        trp_status status = trp_device_open(s.get(), &options, &state->device);
        if (status == TRP_OK)
            state_ = std::move(state);
        return status;
    }
    std::shared_ptr<detail::device_state> state_;
};

inline buffer::buffer(const device &d, trp_buffer made) noexcept : state_(d.state_), buffer_(made) {}

inline buffer::buffer(const device &d, const trp_buffer_options &options) : state_(d.state_)
{
    check(trp_buffer_create_with(d.get(), &options, &buffer_));
}

inline expected<buffer> buffer::make(std::nothrow_t, const device &d,
                                     const trp_buffer_options &options)
{
    trp_buffer made{};
    trp_status status = trp_buffer_create_with(d.get(), &options, &made);
    return detail::result(status, status == TRP_OK ? buffer(d, made) : buffer());
}

/* An actor; its end waits for what was sent to it. */
class actor {
public:
    actor(const device &d, const char *kind) : actor(d, of_kind(kind)) {}
    actor(const device &d, const trp_actor_options &options) : state_(d.state_)
    {
        check(trp_actor_create(d.get(), &options, &actor_));
    }
    static expected<actor> make(std::nothrow_t, const device &d, const char *kind)
    {
        actor a{empty{}};
        const trp_actor_options options = of_kind(kind);
        trp_status status = trp_actor_create(d.get(), &options, &a.actor_);
        a.state_ = d.state_;
        return detail::result(status, std::move(a));
    }
    actor(actor &&other) noexcept
        : state_(std::move(other.state_)), actor_(std::exchange(other.actor_, nullptr))
    {
    }
    actor &operator=(actor &&other) noexcept
    {
        if (this != &other) {
            trp_actor_destroy(actor_);
            actor_ = std::exchange(other.actor_, nullptr);
            state_ = std::move(other.state_);
        }
        return *this;
    }
    ~actor() { trp_actor_destroy(actor_); }
    trp_actor *get() const noexcept { return actor_; }

    /* Sends a request by its call: blas.send(trp_gemm, r). */
    template <class Request>
    future send(trp_status (*call)(trp_actor *, const Request *, trp_completion *),
                const Request &r)
    {
        trp_completion done{};
        check(call(actor_, &r, &done));
        return future(done.future);
    }
    template <class Request>
    expected<future> send(std::nothrow_t,
                          trp_status (*call)(trp_actor *, const Request *, trp_completion *),
                          const Request &r)
    {
        trp_completion done{};
        trp_status status = call(actor_, &r, &done);
        return detail::result(status, future(done.future));
    }
    /* The same, without a completion. */
    template <class Request>
    void post(trp_status (*call)(trp_actor *, const Request *, trp_completion *), const Request &r)
    {
        check(call(actor_, &r, nullptr));
    }

private:
    struct empty {};
    explicit actor(empty) noexcept {}
    static trp_actor_options of_kind(const char *kind) noexcept
    {
        trp_actor_options options{};
        options.kind = kind;
        return options;
    }
    std::shared_ptr<detail::device_state> state_;
    trp_actor *actor_ = nullptr;
};

/* A completion queue; see trp_queue_create(). It must be empty when it ends, or it stays until the
 * process does. */
class queue {
public:
    explicit queue(const system &s) : state_(s.state_)
    {
        check(trp_queue_create(s.get(), &queue_));
    }
    queue(queue &&other) noexcept
        : state_(std::move(other.state_)), queue_(std::exchange(other.queue_, nullptr))
    {
    }
    queue &operator=(queue &&) = delete;
    ~queue() { trp_queue_destroy(queue_); }
    trp_queue *get() const noexcept { return queue_; }
    int fd() const noexcept { return trp_queue_fd(queue_); }
    /* The next event, or none within the time. */
    std::optional<trp_event> next(std::int64_t timeout_ns = TRP_FOREVER)
    {
        trp_event event{};
        trp_status status = trp_queue_next(queue_, timeout_ns, &event);
        if (status == TRP_E_TIMEOUT)
            return std::nullopt;
        check(status);
        return event;
    }

private:
    std::shared_ptr<trp_system> state_;
    trp_queue *queue_ = nullptr;
};

/* A tensor of the dnn actor with these dimensions, packed in C order. */
inline trp_dnn_tensor tensor(trp_dtype type, span<const std::int64_t> dims, trp_buffer buffer,
                             std::uint64_t offset = 0)
{
    trp_dnn_tensor t{};
    if (dims.size() > TRP_DNN_RANK_MAX)
        throw std::invalid_argument("trp::tensor: more dimensions than TRP_DNN_RANK_MAX");
    t.type = type;
    t.rank = static_cast<std::uint32_t>(dims.size());
    for (std::size_t i = 0; i < dims.size(); i++)
        t.dim[i] = dims[i];
    t.buffer = buffer;
    t.offset = offset;
    return t;
}

} // namespace trp

#endif
