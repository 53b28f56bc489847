// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"podfit.dev/podfit/localcluster/internal/demand"
	"podfit.dev/podfit/localcluster/internal/launch"
)

func build() *cobra.Command {
	var cache string
	var prometheus bool
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
			for _, a := range wanted {
				path, err := b.Build(c.Context(), a)
				if err != nil {
					return err
				}
				fmt.Println(path)
			}
			return nil
		},
	}
	c.Flags().StringVar(&cache, "cache-dir", "", "where executables are kept (default: .cache/bin in the repository)")
	c.Flags().BoolVar(&prometheus, "prometheus", false, "build Prometheus too")
	return c
}

func up() *cobra.Command {
	o := launch.DefaultOptions
	var cache, ready string
	memory := "8Gi"
	c := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster, and stop it when this command ends",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			size, err := demand.Quantity(memory)
			if err != nil {
				return fmt.Errorf("--node-memory: %w", err)
			}
			o.NodeMemory = int64(size)
			b, err := launch.NewBuilder(cache, os.Stderr)
			if err != nil {
				return err
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
			tell(cluster.Info)
			err = cluster.Wait(c.Context())
			fmt.Fprintln(os.Stderr, "stop everything")
			return err
		},
	}
	f := c.Flags()
	f.IntVar(&o.Nodes, "nodes", o.Nodes, "number of nodes")
	f.IntVar(&o.NodeCPU, "node-cpu", o.NodeCPU, "cores of each node")
	f.StringVar(&memory, "node-memory", memory, "memory of each node")
	f.StringVar(&o.StateDir, "state-dir", "", "keep the cluster's state here, and go on with what is there (default: a temporary folder)")
	f.Float64Var(&o.Speed, "speed", o.Speed, "how much faster than the clock the scenario goes: with 144 a day takes ten minutes")
	f.StringVar(&o.Scenario, "scenario", "", "a file that says what containers do")
	f.DurationVar(&o.MetricResolution, "metric-resolution", o.MetricResolution, "how often metrics-server looks; two looks are needed before a pod has metrics")
	f.DurationVar(&o.CrashLoopMax, "crash-loop-max", o.CrashLoopMax, "the longest back-off of a container that crashes again and again")
	f.IntVar(&o.ControlPort, "control-port", 0, "where the control listens on 127.0.0.1 (default: a free port)")
	f.DurationVar(&o.StartTimeout, "start-timeout", o.StartTimeout, "give up if the cluster is not ready by then; time for building does not count")
	f.BoolVar(&o.Prometheus, "prometheus", false, "run Prometheus too, over the kubelets' /metrics/cadvisor")
	f.StringVar(&o.AuditPolicy, "audit-policy", "", "an audit policy file; the API server then writes logs/audit.log in the state folder, one JSON object per line")
	f.StringVar(&ready, "ready-file", "", "write how to reach the cluster here, as JSON, once it is ready; removed at the end")
	f.StringVar(&cache, "cache-dir", "", "where executables are kept (default: .cache/bin in the repository)")
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

func tell(info launch.Info) {
	fmt.Printf("\nKubernetes %s with %d nodes is ready at %s. Ctrl-C stops it.\n\n", launch.KubernetesVersion, len(info.Nodes), info.Server)
	for _, p := range info.Parts {
		fmt.Printf("  %-24s pid %-7d log %s\n", p.Name, p.PID, p.Log)
	}
	if info.Prometheus != "" {
		fmt.Printf("\nPrometheus answers at %s; it also looks at the targets that files in %s name.\n", info.Prometheus, info.ScrapeTargets)
	}
	fmt.Printf("\nexport KUBECONFIG=%s\nexport LOCALCLUSTER=%s\n\n", info.Kubeconfig, info.Control)
}
