// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"podfit.dev/podfit/localcluster/internal/engine"
	"podfit.dev/podfit/localcluster/internal/machine"
	"podfit.dev/podfit/localcluster/internal/scenario"
)

const tick = 250 * time.Millisecond

// A Config describes all nodes of a process.
type Config struct {
	Nodes         []Node          `json:"nodes"`
	Cores         int             `json:"cores"`  // of each node
	Memory        int64           `json:"memory"` // bytes, of each node
	Clock         engine.Clock    `json:"clock"`
	Scenario      string          `json:"scenario"` // path, or empty
	ServingCert   string          `json:"servingCert"`
	ServingKey    string          `json:"servingKey"`
	ClientCA      string          `json:"clientCA"` // path of the authority of client certificates
	CrashLoopMax  metav1.Duration `json:"crashLoopMax"`
	CPUManager    string          `json:"cpuManager"`    // policy of the CPU manager: none or static
	MemoryManager string          `json:"memoryManager"` // policy of the memory manager: none or static
	ControlPort   int             `json:"controlPort"`
}

// A Node describes one node.
type Node struct {
	Name       string `json:"name"`
	Index      int    `json:"index"`
	Kubeconfig string `json:"kubeconfig"`
	Port       int32  `json:"port"`
	Times      int    `json:"times"` // how often it has the cores and the memory of the configuration
	Root       string `json:"root"`
}

// Run runs the nodes of a configuration file until the context ends.
func Run(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var c Config
	if err := json.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	stage := &engine.Stage{}
	if c.Scenario != "" {
		text, err := os.ReadFile(c.Scenario)
		if err != nil {
			return err
		}
		f, err := scenario.Parse(text)
		if err != nil {
			return err
		}
		stage.Play(f)
	}
	if err := setFeatureGates(); err != nil {
		return err
	}
	allowManyKubelets()

	var runtimes []*engine.Runtime
	for _, n := range c.Nodes {
		c := c
		c.Cores *= n.Times
		c.Memory *= int64(n.Times)
		m := &machine.Machine{Cores: float64(c.Cores), Memory: c.Memory}
		r := engine.NewRuntime(n.Name, n.Index, m, c.Clock, stage)
		if err := startKubelet(ctx, c, n, r); err != nil {
			return fmt.Errorf("start the kubelet of %s: %w", n.Name, err)
		}
		runtimes = append(runtimes, r)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(c.ControlPort)))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: engine.Control(c.Clock, stage, runtimes), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // returns when the server is closed
	defer server.Close()

	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			for _, r := range runtimes {
				r.Tick(now)
			}
		}
	}
}
