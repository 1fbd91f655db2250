/* What mount(8) asked for: mount.nfs SERVER:/PATH TARGET [-rsfnvw] [-o OPTIONS]. */
#include "mount_nfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Options of the kernel's client that ask for nothing that is different here. NFS version 3 over TCP is spoken whatever
 * version is named; a request waits for a bounded time whether the mount is soft or hard. */
static const char *const accepted[] = {
    "_netdev", "acl", "bg", "fg", "hard", "intr", "local_lock", "lock", "lookupcache", "minorversion", "mountproto",
    "mountvers", "namlen", "nfsvers", "noacl", "nointr", "nolock", "noresvport", "proto", "rdirplus", "resvport",
    "retrans", "retry", "rw", "sec", "soft", "softerr", "tcp", "user", "vers", "wsize", NULL,
};
/* Options of any mount, given on to FUSE. */
static const char *const general[] = {
    "async", "atime", "dev", "dirsync", "exec", "noatime", "nodev", "noexec", "nosuid", "ro", "suid", "sync", NULL,
};

static void refuse(const char *why, const char *what, int status)
{
    fprintf(stderr, "mount.nfs: %s: %s\n", why, what);
    exit(status);
}

static bool is_one_of(const char *const *names, const char *name)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

static double number(const char *name, const char *text, double least, double most)
{
    char *end = NULL;
    double value = text ? strtod(text, &end) : 0;
    if (!text || end == text || *end || !(value >= least && value <= most))
        refuse("an incorrect mount option was specified", name, EXIT_MOUNT_FAILED);
    return value;
}

static void add_fuse_option(struct options *options, const char *name)
{
    size_t used = strlen(options->fuse);
    snprintf(options->fuse + used, sizeof options->fuse - used, ",%s", name);
}

static void parse_option(struct options *options, char *name)
{
    char *value = strchr(name, '=');
    if (value)
        *value++ = '\0';
    if (strcmp(name, "port") == 0)
        options->nfs_port = number(name, value, 1, 65535);
    else if (strcmp(name, "mountport") == 0)
        options->mount_port = number(name, value, 1, 65535);
    else if (strcmp(name, "rsize") == 0)
        options->transfer_bytes = number(name, value, 4096, 1 << 20);
    else if (strcmp(name, "timeo") == 0)
        options->deadline_seconds = number(name, value, 1, 6000) / 10;
    else if (strcmp(name, "actimeo") == 0)
        options->attribute_seconds = number(name, value, 0, 86400);
    else if (strcmp(name, "noac") == 0)
        options->attribute_seconds = 0;
    else if (!value && is_one_of(general, name))
        add_fuse_option(options, name);
    else if (!is_one_of(accepted, name))
        refuse("an incorrect mount option was specified", name, EXIT_MOUNT_FAILED);
}

static void split_source(struct options *options, const char *source)
{
    const char *colon = strstr(source, ":/");
    if (!colon || colon == source)
        refuse("not of the form SERVER:/PATH", source, EXIT_MOUNT_USAGE);
    bool bracketed = source[0] == '[' && colon[-1] == ']'; /* an IPv6 address */
    options->server = strndup(source + bracketed, colon - source - 2 * bracketed);
    options->path = strdup(colon + 1);
}

struct options parse_options(int argc, char **argv)
{
    struct options options = {
        /* A portmapper is not asked: both services are expected at their registered ports. */
        .nfs_port = 2049, .mount_port = 20048, .transfer_bytes = 1 << 20, .deadline_seconds = 20, .attribute_seconds = 1,
    };
    int letter;
    while ((letter = getopt(argc, argv, "rwsfnvN:t:o:")) != -1) {
        if (letter == '?')
            exit(EXIT_MOUNT_USAGE);
        if (letter == 'r')
            add_fuse_option(&options, "ro");
        for (char *name = letter == 'o' ? strtok(optarg, ",") : NULL; name; name = strtok(NULL, ","))
            parse_option(&options, name);
    }
    if (argc - optind != 2)
        refuse("usage", "mount.nfs SERVER:/PATH TARGET [-o OPTIONS]", EXIT_MOUNT_USAGE);
    split_source(&options, argv[optind]);
    options.target = realpath(argv[optind + 1], NULL);
    if (!options.target)
        refuse("no such mount point", argv[optind + 1], EXIT_MOUNT_FAILED);
    return options;
}
