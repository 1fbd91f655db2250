/* Files that the kernel knows. The same handle is always the same inode number for the kernel, else it would take a
 * file that it has open for another one. */
#include "mount_nfs.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1 << 14 };

static struct node root = {.lookups = 1};
static struct node *buckets[BUCKETS];

static unsigned bucket_of(const char *handle, unsigned size)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (unsigned i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)handle[i]) * 1099511628211u;
    return (hash ^ hash >> 32) % BUCKETS;
}

static bool is_handle(const struct node *node, const nfs_fh3 *handle)
{
    return node->size == handle->data.data_len && memcmp(node->handle, handle->data.data_val, node->size) == 0;
}

void set_root(const nfs_fh3 *handle)
{
    root.size = handle->data.data_len;
    memcpy(root.handle, handle->data.data_val, root.size);
}

struct node *find_node(fuse_ino_t inode)
{
    return inode == FUSE_ROOT_ID ? &root : (struct node *)(uintptr_t)inode;
}

nfs_fh3 handle_of(fuse_ino_t inode)
{
    struct node *node = find_node(inode);
    return (nfs_fh3){.data = {.data_len = node->size, .data_val = node->handle}};
}

fuse_ino_t remember_node(const nfs_fh3 *handle)
{
    if (is_handle(&root, handle))
        return FUSE_ROOT_ID;
    struct node **bucket = &buckets[bucket_of(handle->data.data_val, handle->data.data_len)];
    struct node *node = *bucket;
    while (node && !is_handle(node, handle))
        node = node->next;
    if (!node) {
        node = calloc(1, sizeof *node);
        if (!node || handle->data.data_len > NFS3_FHSIZE) {
            free(node);
            return 0;
        }
        node->size = handle->data.data_len;
        memcpy(node->handle, handle->data.data_val, node->size);
        node->next = *bucket;
        *bucket = node;
    }
    node->lookups++;
    return (fuse_ino_t)(uintptr_t)node;
}

void forget_node(fuse_ino_t inode, uint64_t lookups)
{
    struct node *node = find_node(inode);
    if (node == &root || (node->lookups -= lookups) > 0)
        return;
    struct node **place = &buckets[bucket_of(node->handle, node->size)];
    while (*place != node)
        place = &(*place)->next;
    *place = node->next;
    free(node);
}
