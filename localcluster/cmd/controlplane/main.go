// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command controlplane contains the parts of a Kubernetes control plane, and the nodes, in one executable, because linking
// each part separately would take most of the build time. The first argument names the part to run.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	"podfit.dev/podfit/localcluster/internal/node"
)

var parts = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"nodes":                   nodes,
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "controlplane: missing argument: etcd, kube-apiserver, kube-controller-manager, kube-scheduler or nodes")
		os.Exit(2)
	}
	part := os.Args[1]
	arguments := os.Args[1:]
	if part == "etcd" {
		etcdmain.Main(arguments)
		return
	}
	command, known := parts[part]
	if !known {
		fmt.Fprintf(os.Stderr, "controlplane: unknown part %q\n", part)
		os.Exit(2)
	}
	os.Args = arguments
	os.Exit(cli.Run(command()))
}

func nodes() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "nodes",
		Short: "Run kubelets over simulated containers",
		RunE: func(*cobra.Command, []string) error {
			return node.Run(genericapiserver.SetupSignalContext(), file)
		},
	}
	c.Flags().StringVar(&file, "config", "", "path of the file that describes the nodes")
	return c
}
