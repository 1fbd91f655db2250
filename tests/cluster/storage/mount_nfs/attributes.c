/* What the server says of a file, as the kernel takes it. */
#include "mount_nfs.h"

const struct options *options_of(fuse_req_t fuse)
{
    return fuse_req_userdata(fuse);
}

struct stat stat_of(const fattr3 *attributes)
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

struct fuse_entry_param entry_of(fuse_req_t fuse, const nfs_fh3 *handle, const fattr3 *attributes)
{
    double seconds = options_of(fuse)->attribute_seconds;
    return (struct fuse_entry_param){
        .ino = remember_node(handle), .attr = stat_of(attributes), .attr_timeout = seconds, .entry_timeout = seconds,
    };
}
