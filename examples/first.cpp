// The same in C++17: objects end by themselves, errors are exceptions.
#include <iostream>
#include <troupe/troupe.hpp>

int main()
{
    try {
        trp::system system;
        trp::device device(system);
        trp::actor blas(device, "blas");
        trp::buffer a = device.upload({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}); // 2 x 3
        trp::buffer b = device.upload({1.f, 0.f, 0.f, 1.f, 1.f, 1.f}); // 3 x 2
        trp::buffer c(device, 4 * sizeof(float));
        blas.post(trp_gemm, trp::request<trp_gemm_request>([&](auto &r) {
                      r.type = TRP_F32, r.order = TRP_ROW_MAJOR;
                      r.m = 2, r.n = 2, r.k = 3;
                      r.a = a, r.b = b, r.c = c;
                  }));
        std::cout << "c[1][0] is " << device.fetch<float>(c, 4)[2] << '\n';
    } catch (const trp::error &e) {
        std::cerr << "failed: " << e.what() << '\n';
        return 1;
    }
}
