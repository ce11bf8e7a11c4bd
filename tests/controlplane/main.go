// Command controlplane is four programs in one binary, each with the flags that upstream documents for it: etcd,
// kube-apiserver, kube-controller-manager and kubectl. The name that it is called by says which (a link to it, as
// busybox does it), or else its first argument.
//
// It exists so that a machine with Go needs nothing else for a real control plane. The code is upstream's; go.mod names
// the versions. Whoever starts it chooses ports, keys and folders, and ends it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	if filepath.Base(os.Args[0]) == "controlplane" && len(os.Args) > 1 {
		// Upstream's own code reads os.Args here and there: it sees what a binary of that name would.
		os.Args = os.Args[1:]
	}
	switch filepath.Base(os.Args[0]) {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		run(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		run(manager.NewControllerManagerCommand())
	case "kubectl":
		run(kubectl.NewDefaultKubectlCommand())
	default:
		fmt.Fprintln(os.Stderr, "usage: controlplane etcd|kube-apiserver|kube-controller-manager|kubectl [flags]")
		os.Exit(2)
	}
}

func run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}
