/* What the kernel asks, and what the server is asked for it. The kernel itself checks permissions by mode and owner
 * (default_permissions); the server is asked as root, and is told who owns what is new. */
#include "mount_nfs.h"

#include <errno.h>
#include <fcntl.h>

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
