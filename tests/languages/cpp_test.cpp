// troupe.hpp: objects end in any order, errors come as exceptions or as values, spans and lists become memory.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <troupe/troupe.hpp>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);                   \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

template <class T> constexpr bool move_only =
    !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T> &&
    std::is_nothrow_move_constructible_v<T>;
static_assert(move_only<trp::system> && move_only<trp::device> && move_only<trp::actor>);
static_assert(move_only<trp::buffer> && move_only<trp::future> && move_only<trp::queue>);
static_assert(move_only<trp::mapping> && move_only<trp::exported_buffer>);
static_assert(trp::dtype_v<const float> == TRP_F32 && trp::dtype_v<std::complex<double>> == TRP_C128);

static trp_device_options on_host()
{
    trp_device_options options{};
    options.backend = TRP_BACKEND_HOST;
    return options;
}

static void numbers()
{
    trp::system system;
    trp::device device(system, on_host());
    trp::actor blas(device, "blas");
    const float list[] = {1, 2, 3, 4};
    std::vector<float> values{5, 6, 7, 8};
    trp::buffer x = device.upload(list), y = device.upload<float>(trp::span<const float>(values));
    auto r = trp::request<trp_blas1_request>([&](auto &q) {
        q.type = trp::dtype_v<float>, q.n = 4, q.alpha = trp_real(2), q.x = x, q.y = y;
    });
    trp::future sent = blas.send(trp_axpy, r);
    sent.await();
    sent.await(); // nothing to wait for
    CHECK(device.fetch<float>(y, 4) == (std::vector<float>{7, 10, 13, 16}));
    CHECK(device.fetch<float>(y, 2, 8) == (std::vector<float>{13, 16}));
    CHECK(device.fetch<float>(y, 0).empty());
    std::array<float, 4> back{};
    trp::future reading = device.read(y, trp::span<float>(back));
    reading.await();
    CHECK(back[3] == 16);
    float dot = 0;
    auto d = trp::request<trp_blas1_request>(
        [&](auto &q) { q.type = TRP_F32, q.n = 4, q.x = x, q.y = x, q.value = &dot; });
    blas.send(trp_dot, d).await();
    CHECK(dot == 30);
    trp_dnn_tensor t = trp::tensor(TRP_F32, {2, 2}, x, 16);
    CHECK(t.rank == 2 && t.dim[0] == 2 && t.dim[1] == 2 && t.buffer.id == x.get().id);
    CHECK(t.offset == 16);
    {
        trp::mapping mapped = x.map(), moved = std::move(mapped);
        CHECK(!mapped.data() && moved.bytes() == 16 && moved.as<float>().size() == 4);
        moved.as<float>()[0] = 9;
        trp::exported_buffer shared = x.exported();
        CHECK(shared->fd > 2 && shared->bytes == 16 && shared->wait_count == 0);
        trp::buffer gone = std::move(x); // the mapping holds what it needs
        x = std::move(gone);
    }
    CHECK(device.fetch<float>(x, 1)[0] == 9);
    CHECK(device.info().backend == TRP_BACKEND_HOST && x.info().bytes == 16);
}

static void errors()
{
    trp::system system;
    trp::device device(system, on_host());
    trp::actor blas(device, "blas");
    try {
        trp::actor none(device, "nothing");
        CHECK(false);
    } catch (const trp::error &e) {
        CHECK(e.status() == TRP_E_ARGUMENT && std::string(e.what()).find("blas") != std::string::npos);
        CHECK(e.record().status == TRP_E_ARGUMENT);
    }
    auto none = trp::actor::make(std::nothrow, device, "nothing");
    CHECK(!none && none.error().status == TRP_E_ARGUMENT);
    auto some = trp::actor::make(std::nothrow, device, "blas");
    CHECK(some && some.error().status == TRP_OK && some->get() != nullptr);
    trp::actor taken = std::move(some).value();
    auto refused = blas.send(std::nothrow, trp_gemm, trp_gemm_request{});
    CHECK(!refused && refused.error().status == TRP_E_ARGUMENT);
    try {
        std::move(refused).value();
        CHECK(false);
    } catch (const trp::error &e) {
        CHECK(e.status() == TRP_E_ARGUMENT);
    }
    auto large = trp::buffer::make(std::nothrow, device, trp_buffer_options{});
    CHECK(!large && large.error().status == TRP_E_ARGUMENT);
    trp_device_options wrong{};
    wrong.ordinal = 99;
    CHECK(!trp::device::make(std::nothrow, system, wrong));
    CHECK(trp::system::make(std::nothrow));
    trp::buffer freed(device, 64), moved = std::move(freed);
    CHECK(freed.get().id == 0 && moved.get().id != 0);
    try {
        freed.info();
        CHECK(false);
    } catch (const trp::error &) {
    }
}

// Whatever ends first, nothing hangs, and all ends.
static void any_order()
{
    auto *system = new trp::system;
    auto *device = new trp::device(*system, on_host());
    auto *actor = new trp::actor(*device, "blas");
    auto *buffer = new trp::buffer(*device, 1 << 20);
    auto *queue = new trp::queue(*system);
    delete system;
    delete device;
    CHECK(!queue->next(0)); // its system is there
    delete queue;
    CHECK(buffer->info().bytes == 1 << 20);
    delete buffer;
    delete actor;

    trp::actor left = [] {
        trp::system s;
        trp::device d(s, on_host());
        return trp::actor(d, "blas");
    }();
    trp::actor other = std::move(left);
    left = std::move(other);
    CHECK(left.get() != nullptr && other.get() == nullptr);
    trp::buffer b;
    {
        trp::system s;
        trp::device d(s, on_host());
        b = trp::buffer(d, 64);
        b = d.upload({1, 2, 3});
        int back[3];
        trp::future f = d.read(b, trp::span<int>(back));
        CHECK(f.await(std::nothrow) == TRP_OK && back[2] == 3);
    }
    CHECK(b.info().bytes == 12);
}

int main()
{
    numbers();
    errors();
    any_order();
}
