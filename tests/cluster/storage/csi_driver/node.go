package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type nodeService struct {
	csi.UnimplementedNodeServer
	node   string
	source string // SERVER:ROOT
	record string
	lock   sync.Mutex
}

// publication is what a test can see of one request.
type publication struct {
	VolumeHandle  string            `json:"volumeHandle"`
	VolumeContext map[string]string `json:"volumeContext"`
	Volume        volume            `json:"volume"`
	Source        string            `json:"source"`
	ReadOnly      bool              `json:"readOnly"`
	TargetPath    string            `json:"targetPath"`
	Error         string            `json:"error"`
}

func (n *nodeService) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.node}, nil
}

func (n *nodeService) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil // nothing is staged, no statistics
}

func (n *nodeService) NodePublishVolume(
	_ context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	asked := publication{
		VolumeHandle:  request.VolumeId,
		VolumeContext: request.VolumeContext,
		ReadOnly:      request.Readonly,
		TargetPath:    request.TargetPath,
	}
	err := n.publish(request, &asked)
	if err != nil {
		asked.Error = status.Convert(err).Message()
	}
	if writeErr := n.remember(asked); writeErr != nil {
		return nil, status.Error(codes.Internal, writeErr.Error())
	}
	return &csi.NodePublishVolumeResponse{}, err
}

func (n *nodeService) publish(request *csi.NodePublishVolumeRequest, asked *publication) error {
	if err := checkCapability(request.VolumeCapability); err != nil {
		return err
	}
	wanted, err := parseHandle(request.VolumeId)
	if err != nil {
		return err
	}
	subpath, err := readContext(request.VolumeContext)
	if err != nil {
		return err
	}
	if wanted.Subpath == "" { // the handle's own goes first
		wanted.Subpath = subpath
	}
	asked.Volume = wanted
	asked.Source = wanted.pathBelow(n.source)
	if err := os.MkdirAll(request.TargetPath, 0o750); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if isMounted(request.TargetPath) { // asked for a second time
		return nil
	}
	options := "rw"
	if request.Readonly {
		options = "ro"
	}
	out, err := exec.Command("mount", "-t", "nfs", "-o", options, asked.Source, request.TargetPath).CombinedOutput()
	if err != nil {
		return status.Errorf(codes.Internal, "could not mount %q at %q: %v: %s", asked.Source, request.TargetPath, err, out)
	}
	return nil
}

// checkCapability refuses what the EFS driver refuses: block volumes, and every access mode but these two.
func checkCapability(capability *csi.VolumeCapability) error {
	mode := capability.GetAccessMode().GetMode()
	if mode != csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER && mode != csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER {
		return status.Errorf(codes.InvalidArgument, "volume capability not supported: invalid access mode: %s", mode)
	}
	if capability.GetMount() == nil {
		return status.Error(codes.InvalidArgument, "volume capability not supported: only filesystem volumes are supported")
	}
	return nil
}

// readContext reads the volumeAttributes that the EFS driver knows, and refuses others as it does. What concerns AWS's
// network alone is checked and no more. Returns the path that the volume begins at.
func readContext(attributes map[string]string) (string, error) {
	subpath := ""
	for name, value := range attributes {
		switch strings.ToLower(name) {
		case "path":
			if !path.IsAbs(value) {
				return "", status.Errorf(codes.InvalidArgument, "volume context property %q must be an absolute path", name)
			}
			subpath = value
		case "encryptintransit", "crossaccount":
			if _, err := strconv.ParseBool(value); err != nil {
				return "", status.Errorf(codes.InvalidArgument, "volume context property %q must be a boolean value: %v", name, err)
			}
		case "mounttargetip", "storage.kubernetes.io/csiprovisioneridentity":
		default:
			return "", status.Errorf(codes.InvalidArgument, "volume context property %s not supported", name)
		}
	}
	return subpath, nil
}

func (n *nodeService) NodeUnpublishVolume(
	_ context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	for isMounted(request.TargetPath) {
		if out, err := exec.Command("umount", request.TargetPath).CombinedOutput(); err != nil {
			return nil, status.Errorf(codes.Internal, "could not unmount %q: %v: %s", request.TargetPath, err, out)
		}
	}
	if err := os.Remove(request.TargetPath); err != nil && !os.IsNotExist(err) {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// isMounted asks the kernel's list, and not the file system, whose server may be gone.
func isMounted(target string) bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && strings.Contains(string(mounts), " "+target+" ")
}

func (n *nodeService) remember(asked publication) error {
	n.lock.Lock()
	defer n.lock.Unlock()
	file, err := os.OpenFile(n.record, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	return json.NewEncoder(file).Encode(asked)
}
