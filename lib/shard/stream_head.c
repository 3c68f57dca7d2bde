/* SPDX-License-Identifier: MIT */
/* HEAD of a stream: u32 magic, u32 size, then "SPOTMIG1", u16 version, u16 flags, u32 length, JSON,
 * u64 xxh3 of the payload so far. That hash is the stream's id: it covers the safetensors header
 * by its own hash in the JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/json.h"
#include "common/le.h"
#include "common/utf8.h"
#include "common/xalloc.h"
#include "shard/stream.h"

enum { HEAD_MAGIC = 0x184D2A50, FRAME_HEAD = 8, FIXED_BYTE = 16, HASH_BYTE = 8 };

static const char magic[8] = { 'S', 'P', 'O', 'T', 'M', 'I', 'G', '1' };

/* The JSON as it is on the wire. */
struct head {
    const char *source, *header_xxh3, *frame_xxh3;
    int64_t chunk_byte, header_byte, frame_byte;
};

static const struct spot_field head_field[] = {
    { "source", SPOT_F_STR, offsetof(struct head, source), NULL, 0, SPOT_STREAM_NAME_MAX - 1,
      true },
    { "chunk_byte", SPOT_F_INT, offsetof(struct head, chunk_byte), "byte", SPOT_CHUNK_BYTE_MIN,
      SPOT_CHUNK_BYTE_MAX, true },
    { "header_byte", SPOT_F_INT, offsetof(struct head, header_byte), "byte", 2, SPOT_ST_HEADER_MAX,
      true },
    { "header_xxh3", SPOT_F_STR, offsetof(struct head, header_xxh3), "hex", 16, 16, true },
    { "frame_byte", SPOT_F_INT, offsetof(struct head, frame_byte), "byte", 1,
      2.0 * SPOT_ST_HEADER_MAX, true },
    { "frame_xxh3", SPOT_F_STR, offsetof(struct head, frame_xxh3), "hex", 16, 16, true },
    { 0 },
};

const struct spot_doc_part spot_stream_part[] = {
    { "", head_field, .required = true },
    { 0 },
};

void spot_stream_name(char to[SPOT_STREAM_NAME_MAX], const char *from)
{
    const size_t n = from ? spot_utf8_cut(from, SPOT_STREAM_NAME_MAX - 1) : 0;

    memcpy(to, from ? from : "", n);
    to[n] = '\0';
    spot_utf8_make_plain(to);
}

static void hash_text(const void *data, size_t n, char text[17])
{
    snprintf(text, 17, "%016" PRIx64, spot_hash64(data, n));
}

/* The JSON of HEAD; free it. NULL with *err. */
static char *make_json(const struct head *head, size_t *n, struct spot_err *err)
{
    char *text = NULL;
    FILE *const out = spot_xmemory_open(&text, n);
    struct spot_jw jw;
    int rc;

    spot_jw_init(&jw, out, false);
    spot_jw_object(&jw, NULL);
    spot_jw_str(&jw, "schema", "spot.stream/1");
    spot_jw_fields(&jw, head_field, head);
    spot_jw_end(&jw);
    rc = spot_jw_close(&jw, err);
    spot_xmemory_close(out);
    if (!rc)
        return text;
    free(text);
    return NULL;
}

int spot_stream_put_head(struct spot_coder *coder, struct spot_stream_info *info,
                         const void *header, size_t n_byte, struct spot_buf *out,
                         struct spot_err *err)
{
    struct spot_buf frame = { 0 };
    char header_xxh3[17], frame_xxh3[17], *json = NULL;
    unsigned char fixed[FRAME_HEAD + FIXED_BYTE], hash[HASH_BYTE];
    const size_t start = out->n;
    struct head head = { .source = info->source };
    size_t n_json = 0;
    int rc = -1;

    info->header_byte = n_byte - SPOT_ST_PREFIX_BYTE;
    if (spot_zframe_compress(coder->zstd, header, n_byte, SPOT_ZFRAME_LZ, true, &frame, err))
        goto out;
    hash_text(header, n_byte, header_xxh3);
    hash_text(frame.data, frame.n, frame_xxh3);
    head.header_xxh3 = header_xxh3;
    head.frame_xxh3 = frame_xxh3;
    head.chunk_byte = info->chunk_byte;
    head.header_byte = (int64_t)info->header_byte;
    head.frame_byte = (int64_t)frame.n;
    json = make_json(&head, &n_json, err);
    if (!json)
        goto out;
    spot_le_put(fixed, (uint64_t)HEAD_MAGIC, 4);
    spot_le_put(fixed + 4, FIXED_BYTE + n_json + HASH_BYTE, 4);
    memcpy(fixed + 8, magic, 8);
    spot_le_put(fixed + 16, SPOT_STREAM_VERSION, 2);
    spot_le_put(fixed + 18, 0, 2);
    spot_le_put(fixed + 20, n_json, 4);
    spot_buf_add(out, fixed, sizeof(fixed));
    spot_buf_add(out, json, n_json);
    info->stream_id = spot_hash64(out->data + start + FRAME_HEAD, FIXED_BYTE + n_json);
    spot_le_put(hash, info->stream_id, HASH_BYTE);
    spot_buf_add(out, hash, HASH_BYTE);
    spot_buf_add(out, frame.data, frame.n);
    rc = 0;
out:
    free(json);
    spot_buf_release(&frame);
    return rc;
}

/* Check the fixed part; *n_json gets the length of the JSON. */
static int check_fixed(const unsigned char *at, size_t n_payload, size_t *n_json,
                       struct spot_err *err)
{
    const unsigned version = (unsigned)spot_le_get(at + 8, 2);

    *n_json = spot_le_get(at + 12, 4);
    if (memcmp(at, magic, 8) != 0)
        return spot_err_set(err, SPOT_EDATA, "not a spot stream");
    if (version != SPOT_STREAM_VERSION || spot_le_get(at + 10, 2))
        return spot_err_set(err, SPOT_EDATA, "stream version %u, this program reads version %d",
                            version, SPOT_STREAM_VERSION);
    if (*n_json != n_payload - FIXED_BYTE - HASH_BYTE ||
        spot_le_get(at + n_payload - HASH_BYTE, HASH_BYTE) !=
            spot_hash64(at, n_payload - HASH_BYTE))
        return spot_err_set(err, SPOT_EDATA, "the head of the stream is damaged");
    return 0;
}

/* The frame behind HEAD: the safetensors header. */
static int take_frame(struct spot_coder *coder, const struct head *head, const unsigned char *frame,
                      struct spot_buf *header, struct spot_err *err)
{
    const size_t n = (size_t)head->header_byte + SPOT_ST_PREFIX_BYTE;
    struct spot_zframe_result r;
    char text[17];

    hash_text(frame, (size_t)head->frame_byte, text);
    if (strcmp(text, head->frame_xxh3) != 0)
        return spot_err_set(err, SPOT_EDATA, "the frame of the safetensors header is damaged");
    header->n = 0;
    if (spot_zframe_decode(coder->zstd, frame, (size_t)head->frame_byte, spot_buf_more(header, n),
                           n, &r, err))
        return -1;
    header->n = n;
    hash_text(header->data, n, text);
    if (r.used_byte != (size_t)head->frame_byte || r.made_byte != n ||
        strcmp(text, head->header_xxh3) != 0)
        return spot_err_set(err, SPOT_EDATA, "the safetensors header does not match its hash");
    return 0;
}

/* Release *doc, which holds the text of *head, either way. */
static int parse_json(struct spot_json_doc *doc, const char *text, size_t n, struct head *head,
                      struct spot_err *err)
{
    return spot_json_parse(doc, text, n, "head", err) ||
                   spot_json_expect_schema(doc, "spot.stream", 1, err) ||
                   spot_json_read_fields(doc, doc->root, "", head_field, head, err)
               ? -1
               : 0;
}

int spot_stream_check_json(const char *text, size_t n_byte, struct spot_err *err)
{
    struct spot_json_doc doc;
    struct head head;
    const int rc = parse_json(&doc, text, n_byte, &head, err);

    spot_json_release(&doc);
    return rc;
}

int spot_stream_get_head(struct spot_coder *coder, const void *bytes, size_t n_byte,
                         struct spot_stream_info *info, struct spot_buf *header, size_t *used_byte,
                         size_t *need_byte, struct spot_err *err)
{
    const unsigned char *at = bytes;
    struct spot_json_doc doc = { 0 };
    struct head head = { 0 };
    size_t n_payload, n_json;
    int rc = -1;

    *used_byte = 0;
    *need_byte = FRAME_HEAD;
    if (n_byte < *need_byte)
        return 0;
    n_payload = spot_le_get(at + 4, 4);
    if (spot_le_get(at, 4) != HEAD_MAGIC || n_payload < FIXED_BYTE + HASH_BYTE ||
        n_payload > FIXED_BYTE + HASH_BYTE + SPOT_STREAM_JSON_MAX)
        return spot_err_set(err, SPOT_EDATA, "not a spot stream");
    *need_byte += n_payload;
    if (n_byte < *need_byte)
        return 0;
    at += FRAME_HEAD;
    if (check_fixed(at, n_payload, &n_json, err))
        return -1;
    if (parse_json(&doc, (const char *)at + FIXED_BYTE, n_json, &head, err))
        goto out;
    *need_byte += (size_t)head.frame_byte;
    if (n_byte >= *need_byte) {
        info->chunk_byte = (uint32_t)head.chunk_byte;
        info->header_byte = (uint64_t)head.header_byte;
        info->stream_id = spot_le_get(at + n_payload - HASH_BYTE, HASH_BYTE);
        spot_stream_name(info->source, head.source);
        if (take_frame(coder, &head, at + n_payload, header, err))
            goto out;
        *used_byte = *need_byte;
    }
    rc = 0;
out:
    spot_json_release(&doc);
    return rc;
}
