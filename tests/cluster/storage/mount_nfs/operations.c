/* What the kernel asks, and what the server is asked for it. The kernel itself checks permissions by mode and owner
 * (default_permissions); the server is asked as root, and is told who owns what is new. */
#include "mount_nfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIRECTORY_BYTES = 1 << 18 }; /* libnfs takes no answer that is much larger than 1 MiB */

static const struct options *options_of(fuse_req_t fuse)
{
    return fuse_req_userdata(fuse);
}

static struct stat stat_of(const fattr3 *attributes)
{
    static const mode_t types[] = {
        [NF3REG] = S_IFREG, [NF3DIR] = S_IFDIR,   [NF3BLK] = S_IFBLK, [NF3CHR] = S_IFCHR,
        [NF3LNK] = S_IFLNK, [NF3SOCK] = S_IFSOCK, [NF3FIFO] = S_IFIFO,
    };
    return (struct stat){
        .st_ino = attributes->fileid,
        .st_mode = types[attributes->type <= NF3FIFO ? attributes->type : NF3REG] | (attributes->mode & 07777),
        .st_nlink = attributes->nlink,
        .st_uid = attributes->uid,
        .st_gid = attributes->gid,
        .st_size = attributes->size,
        .st_blocks = (attributes->used + 511) / 512,
        .st_blksize = 1 << 20,
        .st_atim = {.tv_sec = attributes->atime.seconds, .tv_nsec = attributes->atime.nseconds},
        .st_mtim = {.tv_sec = attributes->mtime.seconds, .tv_nsec = attributes->mtime.nseconds},
        .st_ctim = {.tv_sec = attributes->ctime.seconds, .tv_nsec = attributes->ctime.nseconds},
    };
}

static struct fuse_entry_param entry_of(fuse_req_t fuse, const nfs_fh3 *handle, const fattr3 *attributes)
{
    double seconds = options_of(fuse)->attribute_seconds;
    return (struct fuse_entry_param){
        .ino = remember_node(handle), .attr = stat_of(attributes), .attr_timeout = seconds, .entry_timeout = seconds,
    };
}

static diropargs3 place(fuse_ino_t parent, const char *name)
{
    return (diropargs3){.dir = handle_of(parent), .name = (char *)name};
}

/* Attributes of what is made: the server is asked as root, and the owner is to be who asks here. */
static sattr3 made_by(fuse_req_t fuse, mode_t mode)
{
    const struct fuse_ctx *caller = fuse_req_ctx(fuse);
    return (sattr3){
        .mode = {.set_it = 1, .set_mode3_u = {.mode = mode & 07777}},
        .uid = {.set_it = 1, .set_uid3_u = {.uid = caller->uid}},
        .gid = {.set_it = 1, .set_gid3_u = {.gid = caller->gid}},
    };
}

/* The answer to LOOKUP, CREATE, MKDIR, SYMLINK. A server may leave handle and attributes out of the last three; those
 * that the tests know do not. */
static void reply_entry(fuse_req_t fuse, const nfs_fh3 *handle, const post_op_attr *attributes,
                        const struct fuse_file_info *file)
{
    if (!handle || !attributes->attributes_follow) {
        fuse_reply_err(fuse, EIO);
        return;
    }
    struct fuse_entry_param entry = entry_of(fuse, handle, &attributes->post_op_attr_u.attributes);
    int gone = file ? fuse_reply_create(fuse, &entry, file) : fuse_reply_entry(fuse, &entry);
    if (gone && entry.ino) /* the kernel no longer wants it, so it does not count it */
        forget_node(entry.ino, 1);
}

static const nfs_fh3 *optional(const post_op_fh3 *handle)
{
    return handle->handle_follows ? &handle->post_op_fh3_u.handle : NULL;
}

static void on_lookup(struct rpc_context *rpc, int status, void *data, void *private_data)
{
    (void)rpc;
    fuse_req_t fuse = end_request(private_data, status, data);
    LOOKUP3resok *result = &((LOOKUP3res *)data)->LOOKUP3res_u.resok;
    if (fuse)
        reply_entry(fuse, &result->object, &result->obj_attributes, NULL);
}

static void op_lookup(fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
    struct request *request = begin_request(fuse, parent);
    LOOKUP3args arguments = {.what = place(parent, name)};
    if (request)
        send_request(request, rpc_nfs3_lookup_async(remote, on_lookup, &arguments, request));
}

static void op_forget(fuse_req_t fuse, fuse_ino_t inode, uint64_t lookups)
{
    forget_node(inode, lookups);
    fuse_reply_none(fuse);
}

static void on_getattr(struct rpc_context *rpc, int status, void *data, void *private_data)
{
    (void)rpc;
    fuse_req_t fuse = end_request(private_data, status, data);
    if (!fuse)
        return;
    struct stat stat = stat_of(&((GETATTR3res *)data)->GETATTR3res_u.resok.obj_attributes);
    fuse_reply_attr(fuse, &stat, options_of(fuse)->attribute_seconds);
}

static void op_getattr(fuse_req_t fuse, fuse_ino_t inode, struct fuse_file_info *file)
{
    (void)file;
    struct request *request = begin_request(fuse, inode);
    GETATTR3args arguments = {.object = handle_of(inode)};
    if (request)
        send_request(request, rpc_nfs3_getattr_async(remote, on_getattr, &arguments, request));
}

static void on_setattr(struct rpc_context *rpc, int status, void *data, void *private_data)
{
    (void)rpc;
    fuse_ino_t inode = ((struct request *)private_data)->inode;
    fuse_req_t fuse = end_request(private_data, status, data);
    if (fuse)
        op_getattr(fuse, inode, NULL);
}

static time_how how(int changes, int set, int set_now)
{
    return changes & set_now ? SET_TO_SERVER_TIME : changes & set ? SET_TO_CLIENT_TIME : DONT_CHANGE;
}

static void op_setattr(fuse_req_t fuse, fuse_ino_t inode, struct stat *stat, int changes, struct fuse_file_info *file)
{
    (void)file;
    struct request *request = begin_request(fuse, inode);
    sattr3 wanted = {
        .mode = {.set_it = !!(changes & FUSE_SET_ATTR_MODE), .set_mode3_u = {.mode = stat->st_mode & 07777}},
        .uid = {.set_it = !!(changes & FUSE_SET_ATTR_UID), .set_uid3_u = {.uid = stat->st_uid}},
        .gid = {.set_it = !!(changes & FUSE_SET_ATTR_GID), .set_gid3_u = {.gid = stat->st_gid}},
        .size = {.set_it = !!(changes & FUSE_SET_ATTR_SIZE), .set_size3_u = {.size = stat->st_size}},
        .atime = {.set_it = how(changes, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW),
                  .set_atime_u = {.atime = {stat->st_atim.tv_sec, stat->st_atim.tv_nsec}}},
        .mtime = {.set_it = how(changes, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW),
                  .set_mtime_u = {.mtime = {stat->st_mtim.tv_sec, stat->st_mtim.tv_nsec}}},
    };
    SETATTR3args arguments = {.object = handle_of(inode), .new_attributes = wanted};
    if (request)
        send_request(request, rpc_nfs3_setattr_async(remote, on_setattr, &arguments, request));
}

static void on_readlink(struct rpc_context *rpc, int status, void *data, void *private_data)
{
    (void)rpc;
    fuse_req_t fuse = end_request(private_data, status, data);
    if (fuse)
        fuse_reply_readlink(fuse, ((READLINK3res *)data)->READLINK3res_u.resok.data);
}

static void op_readlink(fuse_req_t fuse, fuse_ino_t inode)
{
    struct request *request = begin_request(fuse, inode);
    READLINK3args arguments = {.symlink = handle_of(inode)};
    if (request)
        send_request(request, rpc_nfs3_readlink_async(remote, on_readlink, &arguments, request));
}

static void on_create(struct rpc_context *rpc, int status, void *data, void *private_data)
{
    (void)rpc;
    struct fuse_file_info file = ((struct request *)private_data)->file;
    fuse_req_t fuse = end_request(private_data, status, data);
    CREATE3resok *result = &((CREATE3res *)data)->CREATE3res_u.resok;
    if (fuse)
        reply_entry(fuse, optional(&result->obj), &result->obj_attributes, &file);
}

static void op_create(fuse_req_t fuse, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *file)
{
    struct request *request = begin_request(fuse, parent);
    if (!request)
        return;
    CREATE3args arguments = {.where = place(parent, name)};
    arguments.how.mode = file->flags & O_EXCL ? GUARDED : UNCHECKED;
    arguments.how.createhow3_u.obj_attributes = made_by(fuse, mode);
    request->file = *file;
    send_request(request, rpc_nfs3_create_async(remote, on_create, &arguments, request));
}

static void on_mkdir(struct rpc_context *rpc, int status, void *data, void *private_data)
{
    (void)rpc;
    fuse_req_t fuse = end_request(private_data, status, data);
    MKDIR3resok *result = &((MKDIR3res *)data)->MKDIR3res_u.resok;
    if (fuse)
        reply_entry(fuse, optional(&result->obj), &result->obj_attributes, NULL);
}

static void op_mkdir(fuse_req_t fuse, fuse_ino_t parent, const char *name, mode_t mode)
{
    struct request *request = begin_request(fuse, parent);
    MKDIR3args arguments = {.where = place(parent, name), .attributes = made_by(fuse, mode)};
    if (request)
        send_request(request, rpc_nfs3_mkdir_async(remote, on_mkdir, &arguments, request));
}

static void on_symlink(struct rpc_context *rpc, int status, void *data, void *private_data)
{
    (void)rpc;
    fuse_req_t fuse = end_request(private_data, status, data);
    SYMLINK3resok *result = &((SYMLINK3res *)data)->SYMLINK3res_u.resok;
    if (fuse)
        reply_entry(fuse, optional(&result->obj), &result->obj_attributes, NULL);
}

static void op_symlink(fuse_req_t fuse, const char *target, fuse_ino_t parent, const char *name)
{
    struct request *request = begin_request(fuse, parent);
    SYMLINK3args arguments = {.where = place(parent, name)};
    arguments.symlink = (symlinkdata3){.symlink_attributes = made_by(fuse, 0777), .symlink_data = (char *)target};
    if (request)
        send_request(request, rpc_nfs3_symlink_async(remote, on_symlink, &arguments, request));
}

/* The answer to whatever gives nothing back but success. */
static void on_done(struct rpc_context *rpc, int status, void *data, void *private_data)
{
    (void)rpc;
    fuse_req_t fuse = end_request(private_data, status, data);
    if (fuse)
        fuse_reply_err(fuse, 0);
}

static void op_unlink(fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
    struct request *request = begin_request(fuse, parent);
    REMOVE3args arguments = {.object = place(parent, name)};
    if (request)
        send_request(request, rpc_nfs3_remove_async(remote, on_done, &arguments, request));
}

static void op_rmdir(fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
    struct request *request = begin_request(fuse, parent);
    RMDIR3args arguments = {.object = place(parent, name)};
    if (request)
        send_request(request, rpc_nfs3_rmdir_async(remote, on_done, &arguments, request));
}

static void op_rename(fuse_req_t fuse, fuse_ino_t parent, const char *name, fuse_ino_t new_parent, const char *new_name,
                      unsigned flags)
{
    if (flags) { /* RENAME_NOREPLACE and its like are not in the protocol */
        fuse_reply_err(fuse, EINVAL);
        return;
    }
    struct request *request = begin_request(fuse, parent);
    RENAME3args arguments = {.from = place(parent, name), .to = place(new_parent, new_name)};
    if (request)
        send_request(request, rpc_nfs3_rename_async(remote, on_done, &arguments, request));
}

static void op_open(fuse_req_t fuse, fuse_ino_t inode, struct fuse_file_info *file)
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

static void op_read(fuse_req_t fuse, fuse_ino_t inode, size_t size, off_t offset, struct fuse_file_info *file)
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

static void op_write(fuse_req_t fuse, fuse_ino_t inode, const char *bytes, size_t size, off_t offset,
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

static void op_fsync(fuse_req_t fuse, fuse_ino_t inode, int only_data, struct fuse_file_info *file)
{
    (void)inode, (void)only_data, (void)file; /* what was written is on the server's disk: FILE_SYNC */
    fuse_reply_err(fuse, 0);
}

static void op_opendir(fuse_req_t fuse, fuse_ino_t inode, struct fuse_file_info *file)
{
    (void)inode;
    char *verifier = calloc(1, NFS3_COOKIEVERFSIZE);
    file->fh = (uintptr_t)verifier;
    if (!verifier)
        fuse_reply_err(fuse, ENOMEM);
    else if (fuse_reply_open(fuse, file))
        free(verifier);
}

static void op_releasedir(fuse_req_t fuse, fuse_ino_t inode, struct fuse_file_info *file)
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

static void op_readdirplus(fuse_req_t fuse, fuse_ino_t inode, size_t size, off_t cookie, struct fuse_file_info *file)
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

static void on_statfs(struct rpc_context *rpc, int status, void *data, void *private_data)
{
    (void)rpc;
    fuse_req_t fuse = end_request(private_data, status, data);
    if (!fuse)
        return;
    FSSTAT3resok *result = &((FSSTAT3res *)data)->FSSTAT3res_u.resok;
    struct statvfs space = {
        .f_bsize = 4096, .f_frsize = 4096, .f_namemax = 255,
        .f_blocks = result->tbytes / 4096, .f_bfree = result->fbytes / 4096, .f_bavail = result->abytes / 4096,
        .f_files = result->tfiles, .f_ffree = result->ffiles, .f_favail = result->afiles,
    };
    fuse_reply_statfs(fuse, &space);
}

static void op_statfs(fuse_req_t fuse, fuse_ino_t inode)
{
    struct request *request = begin_request(fuse, inode);
    FSSTAT3args arguments = {.fsroot = handle_of(FUSE_ROOT_ID)};
    if (request)
        send_request(request, rpc_nfs3_fsstat_async(remote, on_statfs, &arguments, request));
}

static void op_init(void *userdata, struct fuse_conn_info *connection)
{
    const struct options *options = userdata;
    connection->want &= ~FUSE_CAP_ATOMIC_O_TRUNC; /* a file is cut by SETATTR */
    connection->want &= ~FUSE_CAP_READDIRPLUS_AUTO; /* the server sends attributes anyway */
    connection->max_read = connection->max_write = options->transfer_bytes;
    connection->max_background = 64;
    connection->congestion_threshold = 64;
}

const struct fuse_lowlevel_ops operations = {
    .init = op_init,
    .lookup = op_lookup,
    .forget = op_forget,
    .getattr = op_getattr,
    .setattr = op_setattr,
    .readlink = op_readlink,
    .create = op_create,
    .mkdir = op_mkdir,
    .symlink = op_symlink,
    .unlink = op_unlink,
    .rmdir = op_rmdir,
    .rename = op_rename,
    .open = op_open,
    .read = op_read,
    .write = op_write,
    .fsync = op_fsync,
    .opendir = op_opendir,
    .readdirplus = op_readdirplus,
    .releasedir = op_releasedir,
    .statfs = op_statfs,
};
