package main

import (
	"path"
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	fileSystemID  = regexp.MustCompile(`^fs-[0-9a-f]{8,40}$`) // as the EFS API's reference has them
	accessPointID = regexp.MustCompile(`^fsap-[0-9a-f]{8,40}$`)
)

// volume is what a volumeHandle names: FILESYSTEM[:[SUBPATH][:[ACCESSPOINT]]], as the EFS driver reads it.
type volume struct {
	FileSystem  string `json:"fileSystem"`
	Subpath     string `json:"subpath"`
	AccessPoint string `json:"accessPoint"`
}

func parseHandle(handle string) (volume, error) {
	parts := append(strings.Split(handle, ":"), "", "")
	parsed := volume{FileSystem: parts[0], Subpath: parts[1], AccessPoint: parts[2]}
	if len(parts) > 5 {
		return volume{}, status.Errorf(codes.InvalidArgument, "volume ID %q is invalid: more than FILESYSTEM:SUBPATH:ACCESSPOINT", handle)
	}
	if !fileSystemID.MatchString(parsed.FileSystem) {
		return volume{}, status.Errorf(codes.InvalidArgument, "volume ID %q is invalid: expected a file system ID of the form 'fs-...'", handle)
	}
	if parsed.AccessPoint != "" && !accessPointID.MatchString(parsed.AccessPoint) {
		return volume{}, status.Errorf(codes.InvalidArgument, "volume ID %q has an invalid access point ID: expected the form 'fsap-...'", handle)
	}
	return parsed, nil
}

// pathBelow is where the volume's files are below the folder of all file systems and access points.
func (v volume) pathBelow(root string) string {
	base := v.FileSystem
	if v.AccessPoint != "" {
		base = v.AccessPoint
	}
	return path.Join(root, base) + path.Join("/", v.Subpath) // joined to "/" first, so that no ".." leads out
}
