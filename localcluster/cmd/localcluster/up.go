// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
	"podfit.dev/podfit/localcluster/internal/demand"
	"podfit.dev/podfit/localcluster/internal/launch"
)

func build() *cobra.Command {
	var cache, export, arch string
	var prometheus, stateMetrics, karpenter bool
	c := &cobra.Command{
		Use:   "build",
		Short: "Build the executables that are missing or out of date",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			b, err := launch.NewBuilder(cache, os.Stderr)
			if err != nil {
				return err
			}
			wanted := []launch.Artifact{launch.Launcher, launch.ControlPlane, launch.MetricsServer}
			if prometheus {
				wanted = append(wanted, launch.Prometheus)
			}
			if stateMetrics {
				wanted = append(wanted, launch.StateMetrics)
			}
			if karpenter {
				wanted = append(wanted, launch.Karpenter)
			}
			if export != "" {
				return b.Export(c.Context(), export, arch, wanted...)
			}
			paths, err := b.BuildAll(c.Context(), wanted...)
			if err != nil {
				return err
			}
			for _, a := range wanted {
				fmt.Println(paths[a.Name])
			}
			return nil
		},
	}
	c.Flags().StringVar(&cache, "cache-dir", "", "folder of the executables (default: .cache/bin in the repository)")
	c.Flags().StringVar(&export, "export", "", "folder to write static executables to, for other machines, instead of keeping them for this one")
	c.Flags().StringVar(&arch, "arch", runtime.GOARCH, "architecture of those machines, in Go's names; their system is Linux")
	c.Flags().BoolVar(&prometheus, "prometheus", false, "also build Prometheus")
	c.Flags().BoolVar(&stateMetrics, "kube-state-metrics", false, "also build kube-state-metrics")
	c.Flags().BoolVar(&karpenter, "karpenter", false, "also build Karpenter with its provider for tests; up does not start it")
	return c
}

func up() *cobra.Command {
	o := launch.DefaultOptions
	var cache, given, ready string
	memory := "8Gi"
	c := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster, and stop it when this command exits",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			size, err := demand.Quantity(memory)
			if err != nil {
				return fmt.Errorf("--node-memory: %w", err)
			}
			o.NodeMemory = int64(size)
			b := &launch.Builder{Given: given, Out: os.Stderr}
			if given == "" {
				if b, err = launch.NewBuilder(cache, os.Stderr); err != nil {
					return err
				}
			}
			cluster, err := launch.Up(c.Context(), o, b)
			if err != nil {
				return err
			}
			defer cluster.Down()
			if ready != "" {
				if err := writeReady(ready, cluster.Info); err != nil {
					return err
				}
				defer os.Remove(ready)
			}
			printInfo(cluster.Info)
			err = cluster.Wait(c.Context())
			fmt.Fprintln(os.Stderr, "Stopping the cluster")
			return err
		},
	}
	f := c.Flags()
	f.IntVar(&o.Nodes, "nodes", o.Nodes, "number of nodes")
	f.IntVar(&o.NodeCPU, "node-cpu", o.NodeCPU, "cores of each node")
	f.StringVar(&memory, "node-memory", memory, "memory of each node")
	f.IntVar(&o.LargeNodes, "large-nodes", 0, "number of nodes, the last ones, with four times these cores and this memory")
	f.StringVar(&o.StateDir, "state-dir", "", "folder of the cluster's state; an existing state is continued (default: a temporary folder, removed at exit)")
	f.Float64Var(&o.Speed, "speed", o.Speed, "scenario seconds per real second; with 144, a scenario day takes ten minutes")
	f.StringVar(&o.Scenario, "scenario", "", "path of a file with rules for what containers use")
	f.DurationVar(&o.MetricResolution, "metric-resolution", o.MetricResolution, "interval at which metrics-server scrapes the kubelets; a pod has metrics after two scrapes")
	f.DurationVar(&o.CrashLoopMax, "crash-loop-max", o.CrashLoopMax, "maximum back-off between restarts of a crashing container")
	f.StringVar(&o.CPUManager, "cpu-manager", o.CPUManager, "policy of the kubelets' CPU manager, none or static; with static, the kubelets refuse to resize the CPU of Guaranteed pods")
	f.StringVar(&o.MemoryManager, "memory-manager", o.MemoryManager, "policy of the kubelets' memory manager, none or static; with static, the kubelets refuse to resize the memory of Guaranteed pods")
	f.IntVar(&o.ControlPort, "control-port", 0, "port of the control API on 127.0.0.1 (default: a free port)")
	f.DurationVar(&o.StartTimeout, "start-timeout", o.StartTimeout, "how long the cluster may take to become ready; time for building is not included")
	f.BoolVar(&o.Prometheus, "prometheus", false, "also run Prometheus, which scrapes /metrics/cadvisor of the kubelets")
	f.BoolVar(&o.StateMetrics, "kube-state-metrics", false, "also run kube-state-metrics, which Prometheus scrapes")
	f.StringVar(&o.CustomResources, "custom-resource-state", "", "path of a configuration of kube-state-metrics for custom resources")
	f.StringVar(&o.AuditPolicy, "audit-policy", "", "path of an audit policy; the API server then writes logs/audit.log in the state folder, one JSON object per line")
	f.StringVar(&ready, "ready-file", "", "path of a JSON file with the cluster's addresses and credentials; written when the cluster is ready, removed at exit")
	f.StringVar(&cache, "cache-dir", "", "folder of the executables (default: .cache/bin in the repository)")
	f.StringVar(&given, "executables", "", "folder with exported executables, which are used as they are; neither Go nor the repository is needed then")
	return c
}

func writeReady(path string, info launch.Info) error {
	text, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return err
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return err
	}
	return launch.WriteFile(path, append(text, '\n'), 0o644)
}

func printInfo(info launch.Info) {
	fmt.Printf("\nKubernetes %s with %d nodes is ready at %s. Press Ctrl-C to stop it.\n\n", launch.KubernetesVersion, len(info.Nodes), info.Server)
	for _, p := range info.Parts {
		fmt.Printf("  %-24s pid %-7d log %s\n", p.Name, p.PID, p.Log)
	}
	if info.Prometheus != "" {
		fmt.Printf("\nPrometheus serves at %s. It also scrapes the targets in the files of %s.\n", info.Prometheus, info.ScrapeTargets)
	}
	if info.StateMetrics != "" {
		fmt.Printf("\nkube-state-metrics serves at %s/metrics.\n", info.StateMetrics)
	}
	fmt.Printf("\nexport KUBECONFIG=%s\nexport LOCALCLUSTER=%s\n\n", info.Kubeconfig, info.Control)
}
