/* mount.nfs for tests, on machines whose kernel has no NFS client: NFS version 3 (RFC 1813) over FUSE.
 *
 * One thread does all: it hands each request of the kernel to the server as soon as it comes, and answers when the
 * server has; so many are on their way at once. No state is kept at the server, so that it may restart.
 */
#ifndef MOUNT_NFS_H
#define MOUNT_NFS_H

#define FUSE_USE_VERSION 314

#include <fuse3/fuse_lowlevel.h>
#include <nfsc/libnfs-zdr.h>
#include <nfsc/libnfs.h>
#include <nfsc/libnfs-raw.h>
#include <nfsc/libnfs-raw-nfs.h>
#include <stdbool.h>
#include <stdint.h>

enum { EXIT_MOUNT_USAGE = 1, EXIT_MOUNT_FAILED = 32 }; /* mount(8), EXIT STATUS */

/* options.c: what mount(8) asked for. */
struct options {
    char *server, *path, *target;
    int nfs_port, mount_port;
    unsigned transfer_bytes;       /* of one READ or WRITE, at most */
    double deadline_seconds;       /* how long a request waits for the server before it fails with EIO */
    double attribute_seconds;      /* how long the kernel believes what it was told about a file */
    char fuse[512];                /* options of the FUSE mount itself */
};
struct options parse_options(int argc, char **argv); /* exits where they are wrong */

/* nodes.c: files that the kernel knows, by the handle that the server gave. */
struct node {
    struct node *next;
    uint64_t lookups; /* how often the kernel was told of it and has not forgotten it */
    unsigned size;
    char handle[NFS3_FHSIZE];
};
void set_root(const nfs_fh3 *handle);
struct node *find_node(fuse_ino_t inode);
fuse_ino_t remember_node(const nfs_fh3 *handle); /* 0 where memory is short */
void forget_node(fuse_ino_t inode, uint64_t lookups);
nfs_fh3 handle_of(fuse_ino_t inode);

/* remote.c: the connection, and the requests that are on their way. */
struct request {
    struct request *next, *previous;
    fuse_req_t fuse; /* NULL: answered already, because its time was over */
    double deadline;
    fuse_ino_t inode;
    size_t size;
    struct fuse_file_info file;
    void *directory;
};
extern struct rpc_context *remote;
bool connect_remote(const struct options *options, nfs_fh3 *root, FSINFO3resok *limits);
struct request *begin_request(fuse_req_t fuse, fuse_ino_t inode);
void send_request(struct request *request, int refused); /* `refused`: what rpc_nfs3_..._async() returned */
fuse_req_t end_request(struct request *request, int status, const void *result);
int serve(struct fuse_session *session);

/* attributes.c: what the server says of a file, as the kernel takes it. */
const struct options *options_of(fuse_req_t fuse);
struct stat stat_of(const fattr3 *attributes);
struct fuse_entry_param entry_of(fuse_req_t fuse, const nfs_fh3 *handle, const fattr3 *attributes);

/* content.c: what is in files and folders. */
void op_open(fuse_req_t fuse, fuse_ino_t inode, struct fuse_file_info *file);
void op_read(fuse_req_t fuse, fuse_ino_t inode, size_t size, off_t offset, struct fuse_file_info *file);
void op_write(fuse_req_t fuse, fuse_ino_t inode, const char *bytes, size_t size, off_t offset,
              struct fuse_file_info *file);
void op_fsync(fuse_req_t fuse, fuse_ino_t inode, int only_data, struct fuse_file_info *file);
void op_opendir(fuse_req_t fuse, fuse_ino_t inode, struct fuse_file_info *file);
void op_readdirplus(fuse_req_t fuse, fuse_ino_t inode, size_t size, off_t cookie, struct fuse_file_info *file);
void op_releasedir(fuse_req_t fuse, fuse_ino_t inode, struct fuse_file_info *file);

/* operations.c: all that the kernel asks, and what the server is asked for it. */
extern const struct fuse_lowlevel_ops operations;

#endif
