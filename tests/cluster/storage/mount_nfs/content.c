/* What is in files and folders: open, read, write, list. */
#include "mount_nfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIRECTORY_BYTES = 1 << 18 }; /* libnfs takes no answer that is much larger than 1 MiB */

void op_open(fuse_req_t fuse, fuse_ino_t inode, struct fuse_file_info *file)
{
    (void)inode;
    file->keep_cache = 1; /* the kernel drops what it has as soon as size or time of the file differ */
    fuse_reply_open(fuse, file);
}

static void on_read(struct rpc_context *rpc, int status, void *data, void *private_data)
{
    (void)rpc;
    size_t wanted = ((struct request *)private_data)->size;
    fuse_req_t fuse = end_request(private_data, status, data);
    READ3resok *result = &((READ3res *)data)->READ3res_u.resok;
    if (!fuse)
        return;
    if (result->data.data_len < wanted && !result->eof) /* the kernel would take it for the end of the file */
        fuse_reply_err(fuse, EIO);
    else
        fuse_reply_buf(fuse, result->data.data_val, result->data.data_len);
}

void op_read(fuse_req_t fuse, fuse_ino_t inode, size_t size, off_t offset, struct fuse_file_info *file)
{
    (void)file;
    struct request *request = begin_request(fuse, inode);
    if (!request)
        return;
    READ3args arguments = {.file = handle_of(inode), .offset = offset, .count = size};
    request->size = size;
    send_request(request, rpc_nfs3_read_async(remote, on_read, &arguments, request));
}

static void on_write(struct rpc_context *rpc, int status, void *data, void *private_data)
{
    (void)rpc;
    fuse_req_t fuse = end_request(private_data, status, data);
    if (fuse)
        fuse_reply_write(fuse, ((WRITE3res *)data)->WRITE3res_u.resok.count);
}

void op_write(fuse_req_t fuse, fuse_ino_t inode, const char *bytes, size_t size, off_t offset,
                     struct fuse_file_info *file)
{
    (void)file;
    struct request *request = begin_request(fuse, inode);
    WRITE3args arguments = {.file = handle_of(inode), .offset = offset, .count = size, .stable = FILE_SYNC};
    arguments.data.data_len = size;
    arguments.data.data_val = (char *)bytes;
    if (request)
        send_request(request, rpc_nfs3_write_async(remote, on_write, &arguments, request));
}

void op_fsync(fuse_req_t fuse, fuse_ino_t inode, int only_data, struct fuse_file_info *file)
{
    (void)inode, (void)only_data, (void)file; /* what was written is on the server's disk: FILE_SYNC */
    fuse_reply_err(fuse, 0);
}

void op_opendir(fuse_req_t fuse, fuse_ino_t inode, struct fuse_file_info *file)
{
    (void)inode;
    char *verifier = calloc(1, NFS3_COOKIEVERFSIZE);
    file->fh = (uintptr_t)verifier;
    if (!verifier)
        fuse_reply_err(fuse, ENOMEM);
    else if (fuse_reply_open(fuse, file))
        free(verifier);
}

void op_releasedir(fuse_req_t fuse, fuse_ino_t inode, struct fuse_file_info *file)
{
    (void)inode;
    free((char *)(uintptr_t)file->fh);
    fuse_reply_err(fuse, 0);
}

/* One entry into the answer. Returns its size, more than `room` if it does not fit. */
static size_t add_entry(fuse_req_t fuse, char *buffer, size_t room, const entryplus3 *entry)
{
    bool known = entry->name_attributes.attributes_follow && entry->name_handle.handle_follows &&
                 strcmp(entry->name, ".") != 0 && strcmp(entry->name, "..") != 0;
    struct fuse_entry_param found = {.attr = {.st_ino = entry->fileid}}; /* no inode number: the kernel looks it up */
    if (entry->name_attributes.attributes_follow)
        found.attr = stat_of(&entry->name_attributes.post_op_attr_u.attributes);
    if (known)
        found = entry_of(fuse, &entry->name_handle.post_op_fh3_u.handle, &entry->name_attributes.post_op_attr_u.attributes);
    size_t size = fuse_add_direntry_plus(fuse, buffer, room, entry->name, &found, entry->cookie);
    if (size > room && found.ino)
        forget_node(found.ino, 1);
    return size;
}

static void on_readdir(struct rpc_context *rpc, int status, void *data, void *private_data)
{
    (void)rpc;
    size_t room = ((struct request *)private_data)->size, used = 0;
    char *verifier = ((struct request *)private_data)->directory;
    fuse_req_t fuse = end_request(private_data, status, data);
    if (!fuse)
        return;
    READDIRPLUS3resok *result = &((READDIRPLUS3res *)data)->READDIRPLUS3res_u.resok;
    char *buffer = malloc(room);
    if (!buffer) {
        fuse_reply_err(fuse, ENOMEM);
        return;
    }
    memcpy(verifier, result->cookieverf, NFS3_COOKIEVERFSIZE);
    for (const entryplus3 *entry = result->reply.entries; entry; entry = entry->nextentry) {
        size_t size = add_entry(fuse, buffer + used, room - used, entry);
        if (size > room - used)
            break; /* the kernel asks again from the last that it got */
        used += size;
    }
    fuse_reply_buf(fuse, buffer, used);
    free(buffer);
}

void op_readdirplus(fuse_req_t fuse, fuse_ino_t inode, size_t size, off_t cookie, struct fuse_file_info *file)
{
    struct request *request = begin_request(fuse, inode);
    if (!request)
        return;
    count3 most = size < MOST_DIRECTORY_BYTES ? size : MOST_DIRECTORY_BYTES;
    READDIRPLUS3args arguments = {.dir = handle_of(inode), .cookie = cookie, .dircount = most, .maxcount = 2 * most};
    request->size = size;
    request->directory = (char *)(uintptr_t)file->fh;
    memcpy(arguments.cookieverf, request->directory, NFS3_COOKIEVERFSIZE);
    send_request(request, rpc_nfs3_readdirplus_async(remote, on_readdir, &arguments, request));
}
