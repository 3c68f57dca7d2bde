/* SPDX-License-Identifier: MIT */
/* kernel.h - a kernel as it is read and as it runs. */
#ifndef SPOT_TESTS_PTX_KERNEL_H
#define SPOT_TESTS_PTX_KERNEL_H

#include "ptx/ptx.h"

enum ptx_type {
    T_NONE,
    T_PRED,
    T_B8,
    T_S8,
    T_B16,
    T_S16,
    T_B32,
    T_S32,
    T_B64,
    T_S64,
    T_BF16,
    T_F32,
    T_F64
};
enum ptx_space { S_GLOBAL, S_SHARED, S_LOCAL, S_PARAM };
enum ptx_rounding { R_NEAREST, R_DOWN, R_ZERO };
/* From C_NAN on they are true where either is NaN. */
enum ptx_compare {
    C_EQ,
    C_NE,
    C_LT,
    C_LE,
    C_GT,
    C_GE,
    C_NAN,
    C_EQU,
    C_NEU,
    C_LTU,
    C_LEU,
    C_GTU,
    C_GEU
};

#define PTX_EACH_OP(x)                                                                        \
    x(NOP, "nop") x(ADD, "add") x(SUB, "sub") x(MUL, "mul") x(MAD, "mad") x(FMA, "fma")       \
        x(DIV, "div") x(REM, "rem") x(MIN, "min") x(MAX, "max") x(NEG, "neg") x(ABS, "abs")   \
            x(AND, "and") x(OR, "or") x(XOR, "xor") x(NOT, "not") x(SHL, "shl") x(SHR, "shr") \
                x(BFI, "bfi") x(SELP, "selp") x(SETP, "setp") x(CVT, "cvt") x(CVTA, "cvta")   \
                    x(MOV, "mov") x(EX2, "ex2") x(RCP, "rcp") x(SQRT, "sqrt") x(LD, "ld")     \
                        x(ST, "st") x(ATOM, "atom") x(CP, "cp") x(BRA, "bra") x(RET, "ret")   \
                            x(BAR, "bar") x(SHFL, "shfl") x(LDMATRIX, "ldmatrix") x(MMA, "mma")

enum ptx_op {
#define ROW(name, text) OP_##name,
    PTX_EACH_OP(ROW)
#undef ROW
};

enum { PTX_OPERANDS_MAX = 16, PTX_NAME_MAX = 160 };

/* Operands are slots of a thread: registers, then what it reads of itself, then constants. */
struct ptx_ins {
    uint8_t op, type, from; /* from: what is converted */
    uint8_t space, rounding, compare;
    uint8_t vector; /* values that move, 1 of a scalar; of mov: how many parts either side has */
    uint8_t
        part; /* cp: 0 copy, 1 commit, 2 wait; mul: 1 wide; shfl: 1 butterfly; ldmatrix: 1 trans */
    bool is_saturated, is_pack; /* mov: parts into one */
    int32_t guard;              /* predicate's slot, -1: always */
    bool is_guard_false;
    uint8_t n;
    int32_t slot[PTX_OPERANDS_MAX]; /* of an address: its base, -1 for none */
    int64_t offset;                 /* of the address; of a branch: its target */
    int32_t line;
};

struct ptx_parameter {
    size_t offset, n_byte;
};

struct ptx_kernel {
    char name[PTX_NAME_MAX];
    const char *path;
    struct ptx_ins *ins;
    char **text; /* [n_ins] for mutations and errors */
    size_t n_ins;
    size_t n_slot;     /* of a thread */
    uint64_t *initial; /* [n_slot] constants at their places */
    struct ptx_parameter parameter[16];
    size_t n_parameter, parameter_byte;
    size_t shared_byte, local_byte; /* static; dynamic shared memory comes behind */
    bool has_run;
};

/* What a thread reads of itself: the first slots. */
enum { SLOT_TID, SLOT_CTAID_X, SLOT_CTAID_Y, SLOT_CTAID_Z, SLOT_NCTAID_X, SLOT_NONE, SLOTS };

size_t ptx_kernels(void);
struct ptx_kernel *ptx_kernel_at(size_t i);

_Noreturn void ptx_end(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif /* SPOT_TESTS_PTX_KERNEL_H */
