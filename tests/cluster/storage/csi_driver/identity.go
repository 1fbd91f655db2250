package main

import (
	"context"
	"log"

	"github.com/container-storage-interface/spec/lib/go/csi"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

type identityService struct {
	csi.UnimplementedIdentityServer
}

func (identityService) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: "test"}, nil
}

func (identityService) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil // no controller: every volume is there beforehand
}

func (identityService) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// registrationService tells kubelet, which finds its socket in plugins_registry, who the driver is and where.
type registrationService struct {
	registration.UnimplementedRegistrationServer
	endpoint string
}

func (r registrationService) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              driverName,
		Endpoint:          r.endpoint,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (registrationService) NotifyRegistrationStatus(
	_ context.Context, result *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	log.Printf("csi: registered %t %s", result.PluginRegistered, result.Error)
	return &registration.RegistrationStatusResponse{}, nil
}
