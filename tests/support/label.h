/* What tests/CMakeLists.txt reads of a test program, or of a script behind a '#': how it is run,
 * and which other tests it is. To the compiler these lines are nothing.
 *
 *   TROUPE_TEST("LABEL", ...)
 *     long            comes first: one that is begun last leaves the other processors idle
 *     computes        is compiled with optimisation in a debug build, too
 *     many workers    starts so many that under ThreadSanitizer they are built without it
 *     one isolation   its numbers are the same in a thread; only ThreadSanitizer runs it there
 *     cuda headers    is compiled with NVIDIA's headers, where there are any
 *     no tsan         ThreadSanitizer has nothing to say about it: one thread, or others show it
 *     no sanitizer    what takes long in it is not our code
 *     foreign leaks   a library that it closes loses memory
 *
 *   TROUPE_TEST_FAKE_GPU("WORD", ...)   once more on the fake driver, as FOLDER/NAME/fake-gpu
 *     as NAME         ... as FOLDER/NAME/NAME
 *     dnn, cutlass    with what fakes the libraries of that actor, too
 *     nvrtc           with the machine's own compiler, if it has one
 *     NAME=VALUE      in the environment; support/fake_cuda/README.md has those of the fakes
 *     cases NAME ...  these cases alone
 *     no tsan, no sanitizer
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_LABEL_H
#define TESTS_SUPPORT_LABEL_H

#define TROUPE_TEST(...)          _Static_assert(1, "")
#define TROUPE_TEST_FAKE_GPU(...) _Static_assert(1, "")

#endif
