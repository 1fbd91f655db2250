/* mount.nfs, as mount(8) runs it: it returns when the file system is mounted, and leaves a process that serves it. */
#define _GNU_SOURCE
#include "mount_nfs.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static const int READAHEAD_KIB = 4096; /* the kernel's 128 KiB let the server wait for us */

/* MAJOR:MINOR of what is mounted on `target`. Asking the file system itself would wait for ourselves. */
static bool find_device(const char *target, char *device, size_t size)
{
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (mounts && getline(&line, &room, mounts) > 0) {
        char number[32], place[4096];
        if (sscanf(line, "%*d %*d %31s %*s %4095s", number, place) == 2 && strcmp(place, target) == 0)
            found = snprintf(device, size, "%s", number) > 0; /* the last one lies on top */
    }
    free(line);
    if (mounts)
        fclose(mounts);
    return found;
}

static void widen_readahead(const char *target)
{
    char device[32], path[128];
    if (!find_device(target, device, sizeof device))
        return;
    snprintf(path, sizeof path, "/sys/class/bdi/%s/read_ahead_kb", device);
    FILE *setting = fopen(path, "we"); /* where /sys is read-only, it is slower and no less right */
    if (!setting)
        return;
    fprintf(setting, "%d\n", READAHEAD_KIB);
    fclose(setting);
}

/* Were what we serve mounted in our own mount namespace, its end would wait for ours, and ours for its. No file is opened
 * from here on, so a namespace with nothing in it will do. */
static bool leave_mount_namespace(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           umount2("/", MNT_DETACH) == 0;
}

static struct fuse_session *new_session(struct options *options)
{
    char mount_options[1024];
    snprintf(mount_options, sizeof mount_options, "allow_other,default_permissions,subtype=nfs,max_read=%u,fsname=%s:%s%s",
             options->transfer_bytes, options->server, options->path, options->fuse);
    char *arguments[] = {"mount.nfs", "-o", mount_options, NULL};
    struct fuse_args fuse_arguments = FUSE_ARGS_INIT(3, arguments);
    return fuse_session_new(&fuse_arguments, &operations, sizeof operations, options);
}

/* The kernel's first message settles how it and we speak. It would undo what is set before it. */
static bool greet(struct fuse_session *session)
{
    struct fuse_buf buffer = {.mem = NULL};
    int size = fuse_session_receive_buf(session, &buffer);
    if (size > 0)
        fuse_session_process_buf(session, &buffer);
    free(buffer.mem);
    return size > 0;
}

int main(int argc, char **argv)
{
    struct options options = parse_options(argc, argv);
    nfs_fh3 root;
    FSINFO3resok limits;
    if (!connect_remote(&options, &root, &limits))
        return EXIT_MOUNT_FAILED;
    set_root(&root);
    unsigned most = limits.rtmax < limits.wtmax ? limits.rtmax : limits.wtmax;
    if (options.transfer_bytes > most)
        options.transfer_bytes = most;
    struct fuse_session *session = new_session(&options);
    if (!session || fuse_session_mount(session, options.target) != 0 || !greet(session))
        return EXIT_MOUNT_FAILED;
    widen_readahead(options.target);
    if (fuse_daemonize(0) != 0 || fuse_set_signal_handlers(session) != 0 || !leave_mount_namespace())
        return EXIT_MOUNT_FAILED;
    return serve(session);
}
