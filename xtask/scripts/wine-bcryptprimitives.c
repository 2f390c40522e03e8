/*
 * The one function of Windows' bcryptprimitives.dll that Rust's standard library uses, for releases of Wine that
 * lack this library. Random bytes come from the older interface, whose lengths have 32 bits. For tests alone: a program
 * that is shipped finds the real library in Windows.
 */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T length)
{
    const SIZE_T most = 1u << 30;

    for (SIZE_T done = 0; done < length;) {
        const SIZE_T left = length - done;
        const ULONG part = (ULONG)(left < most ? left : most);
        if (!RtlGenRandom(bytes + done, part))
            return FALSE;
        done += part;
    }
    return TRUE;
}
