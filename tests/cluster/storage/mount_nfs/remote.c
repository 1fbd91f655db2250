/* The connection to the server, and the requests that are on their way. */
#include "mount_nfs.h"

#include <errno.h>
#include <nfsc/libnfs-raw-mount.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Not in libnfs's headers, and the only way: requests that are on their way are sent again to a server that comes back. */
void rpc_set_autoreconnect(struct rpc_context *rpc, int retries);

static const double PAUSE_SECONDS = 0.1; /* before a server that was lost is asked for a connection again */

struct rpc_context *remote;
static struct request waiting = {.next = &waiting, .previous = &waiting}; /* a ring, the oldest first */
static const struct options *settings;
static double paused_until;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* The first answers, before there is anything to mount: one at a time. */
struct answer {
    bool arrived, good;
    nfs_fh3 *root;
    FSINFO3resok *limits;
};

static void on_connected(struct rpc_context *rpc, int status, void *data, void *private_data)
{
    struct answer *answer = private_data;
    (void)rpc, (void)data;
    answer->arrived = true;
    answer->good = status == RPC_STATUS_SUCCESS;
}

static void on_mounted(struct rpc_context *rpc, int status, void *data, void *private_data)
{
    struct answer *answer = private_data;
    mountres3 *result = data;
    on_connected(rpc, status, data, private_data);
    answer->good = answer->good && result->fhs_status == MNT3_OK;
    if (!answer->good)
        return;
    fhandle3 *handle = &result->mountres3_u.mountinfo.fhandle;
    answer->root->data.data_len = handle->fhandle3_len;
    answer->root->data.data_val = malloc(NFS3_FHSIZE);
    memcpy(answer->root->data.data_val, handle->fhandle3_val, handle->fhandle3_len);
}

static void on_limits(struct rpc_context *rpc, int status, void *data, void *private_data)
{
    struct answer *answer = private_data;
    FSINFO3res *result = data;
    on_connected(rpc, status, data, private_data);
    answer->good = answer->good && result->status == NFS3_OK;
    if (answer->good)
        *answer->limits = result->FSINFO3res_u.resok;
}

static bool await(struct rpc_context *rpc, int refused, struct answer *answer, const char *what)
{
    double deadline = now() + settings->deadline_seconds;
    while (!refused && !answer->arrived && now() < deadline) {
        struct pollfd file = {.fd = rpc_get_fd(rpc), .events = rpc_which_events(rpc)};
        if (poll(&file, 1, 100) < 0 || rpc_service(rpc, file.revents) < 0)
            break;
    }
    bool good = answer->good;
    if (!good)
        fprintf(stderr, "mount.nfs: %s:%s: %s: %s\n", settings->server, settings->path, what,
                answer->arrived ? rpc_get_error(rpc) ? rpc_get_error(rpc) : "refused by server" : "no answer");
    answer->arrived = answer->good = false;
    return good;
}

static bool ask_for_root(struct answer *answer)
{
    struct rpc_context *mountd = rpc_init_context();
    bool good = await(mountd, rpc_connect_async(mountd, settings->server, settings->mount_port, on_connected, answer),
                      answer, "mount service") &&
                await(mountd, rpc_mount3_mnt_async(mountd, on_mounted, settings->path, answer), answer, "access");
    rpc_destroy_context(mountd);
    return good;
}

bool connect_remote(const struct options *options, nfs_fh3 *root, FSINFO3resok *limits)
{
    struct answer answer = {.root = root, .limits = limits};
    settings = options;
    remote = rpc_init_context();
    if (!ask_for_root(&answer))
        return false;
    FSINFO3args arguments = {.fsroot = *root};
    bool good = await(remote, rpc_connect_async(remote, options->server, options->nfs_port, on_connected, &answer), &answer,
                      "NFS service") &&
                await(remote, rpc_nfs3_fsinfo_async(remote, on_limits, &arguments, &answer), &answer, "FSINFO");
    rpc_set_autoreconnect(remote, -1);
    return good;
}

struct request *begin_request(fuse_req_t fuse, fuse_ino_t inode)
{
    struct request *request = calloc(1, sizeof *request);
    if (!request) {
        fuse_reply_err(fuse, ENOMEM);
        return NULL;
    }
    request->fuse = fuse;
    request->inode = inode;
    request->deadline = now() + settings->deadline_seconds;
    request->next = &waiting;
    request->previous = waiting.previous;
    waiting.previous->next = request;
    waiting.previous = request;
    return request;
}

static void unlink_request(struct request *request)
{
    request->next->previous = request->previous;
    request->previous->next = request->next;
}

void send_request(struct request *request, int refused)
{
    if (!refused)
        return;
    fuse_reply_err(request->fuse, EIO);
    unlink_request(request);
    free(request);
}

static int error_of(nfsstat3 status)
{
    switch (status) {
    case NFS3ERR_NAMETOOLONG: return ENAMETOOLONG;
    case NFS3ERR_NOTEMPTY: return ENOTEMPTY;
    case NFS3ERR_DQUOT: return EDQUOT;
    case NFS3ERR_STALE:
    case NFS3ERR_BADHANDLE: return ESTALE;
    case NFS3ERR_NOTSUPP: return EOPNOTSUPP;
    default: return status <= NFS3ERR_MLINK ? (int)status : EIO; /* up to there, the numbers are the system's own */
    }
}

/* Ends a request to which the server, or the connection's end, has given an answer. Returns what is still to be told to
 * the kernel, or NULL where it has been told: of an error, or that the request's time was over. */
fuse_req_t end_request(struct request *request, int status, const void *result)
{
    fuse_req_t fuse = request->fuse;
    int error = status != RPC_STATUS_SUCCESS ? EIO : error_of(*(const nfsstat3 *)result);
    if (fuse)
        unlink_request(request);
    free(request);
    if (!fuse || !error)
        return fuse;
    fuse_reply_err(fuse, error);
    return NULL;
}

/* Fails what has waited too long. libnfs keeps such requests, and calls back when it is rid of them. */
static void expire_requests(void)
{
    while (waiting.next != &waiting && waiting.next->deadline <= now()) {
        struct request *request = waiting.next;
        unlink_request(request);
        fuse_reply_err(request->fuse, EIO);
        request->fuse = NULL;
    }
}

static void serve_remote(int events)
{
    if (rpc_service(remote, events) < 0 || events & (POLLERR | POLLHUP))
        paused_until = now() + PAUSE_SECONDS;
}

/* Answers the kernel until the file system is unmounted. Returns the exit status. */
int serve(struct fuse_session *session)
{
    struct fuse_buf buffer = {.mem = NULL};
    while (!fuse_session_exited(session)) {
        bool paused = now() < paused_until;
        struct pollfd files[] = {
            {.fd = fuse_session_fd(session), .events = POLLIN},
            {.fd = paused ? -1 : rpc_get_fd(remote), .events = rpc_which_events(remote)},
        };
        if (poll(files, 2, paused ? 50 : 500) < 0 && errno != EINTR)
            return EXIT_FAILURE;
        if (files[1].revents)
            serve_remote(files[1].revents);
        if (files[0].revents) {
            int size = fuse_session_receive_buf(session, &buffer);
            if (size > 0)
                fuse_session_process_buf(session, &buffer);
            else if (size != -EINTR && size != -EAGAIN)
                break; /* unmounted */
        }
        expire_requests();
    }
    free(buffer.mem);
    return EXIT_SUCCESS;
}
