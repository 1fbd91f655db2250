// csi is a CSI node plug-in for tests. It goes by the name of AWS EFS's driver and takes what that driver takes, and a
// file system of EFS is a folder of an ordinary NFS server: SERVER:ROOT/fs-ID, and SERVER:ROOT/fsap-ID for an access point.
package main

import (
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const driverName = "efs.csi.aws.com"

func main() {
	node := flag.String("node", "", "name of the node")
	kubelet := flag.String("kubelet", "/var/lib/kubelet", "kubelet's root folder")
	server := flag.String("server", "", "address of the NFS server")
	root := flag.String("root", "/efs", "path on the NFS server under which file systems and access points are")
	record := flag.String("record", "", "file to which a JSON line is added for each volume that is asked for")
	flag.Parse()
	if *node == "" || *server == "" || *record == "" {
		log.Fatal("csi: --node, --server and --record are needed")
	}
	endpoint := filepath.Join(*kubelet, "plugins", driverName, "csi.sock")
	volumes := &nodeService{node: *node, source: *server + ":" + *root, record: *record}
	driver := grpc.NewServer()
	csi.RegisterIdentityServer(driver, identityService{})
	csi.RegisterNodeServer(driver, volumes)
	registrar := grpc.NewServer()
	registration.RegisterRegistrationServer(registrar, registrationService{endpoint: endpoint})

	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM, syscall.SIGINT)
	go serve(driver, endpoint)
	go serve(registrar, filepath.Join(*kubelet, "plugins_registry", driverName+"-reg.sock"))
	<-stopped
	registrar.GracefulStop() // and removes its socket: so kubelet learns that the driver is gone
	driver.GracefulStop()
}

// serve listens on a socket of its own; what a killed predecessor left there is removed.
func serve(server *grpc.Server, path string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		log.Fatal(err)
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("csi: listening on %s", path)
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
}
