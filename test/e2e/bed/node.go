// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// machines has what all machines of a cluster have in common.
type machines struct {
	ServingCert, ServingKey string // paths
	Epoch                   time.Time
	Speed                   float64

	controlPlane string // path of the executable
}

// A Machine describes a machine that joins a running cluster under the name of an existing Node object.
type Machine struct {
	Node   string // its name
	Index  int    // differs from that of every other machine; those that started with the cluster have the first ones
	Cores  int
	Memory int64 // bytes
}

// Join starts the kubelet of a machine, in a process of its own. It makes the Node object ready and runs the pods of the node over simulated containers, as
// the kubelets that started with the cluster do. When the process ends, its containers end.
func (c *Cluster) Join(ctx context.Context, m Machine) (*Process, error) {
	dir := filepath.Join(c.Dir, fmt.Sprintf("machine-%d", m.Index)) // short: the kubelet makes sockets in it
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	identity, err := c.kubeletIdentity(ctx, m.Node, dir)
	if err != nil {
		return nil, fmt.Errorf("get a client certificate for node %s: %w", m.Node, err)
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	control, err := FreePort()
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{
		"nodes": []map[string]any{{"name": m.Node, "index": m.Index, "times": 1, "kubeconfig": identity, "port": port, "root": filepath.Join(dir, "root")}},
		"cores": m.Cores, "memory": m.Memory, "clock": map[string]any{"epoch": c.machines.Epoch, "speed": c.machines.Speed},
		"servingCert": c.machines.ServingCert, "servingKey": c.machines.ServingKey, "clientCA": c.ca, "crashLoopMax": "10s", "cpuManager": "none", "memoryManager": "none",
		"controlPort": control,
	})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "nodes.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, err
	}
	// The kubelet keeps the address of the object. It would not choose one of the loopback interface.
	address := []byte(`{"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}}`)
	if _, err := c.CoreV1().Nodes().PatchStatus(ctx, m.Node, address); err != nil {
		return nil, fmt.Errorf("set the address of node %s: %w", m.Node, err)
	}
	return Start(Command{Name: m.Node, Path: c.machines.controlPlane, Args: []string{"nodes", "--config=" + file}, Log: filepath.Join(dir, "log")})
}

// kubeletIdentity writes a kubeconfig for the kubelet of a node, and returns its path.
func (c *Cluster) kubeletIdentity(ctx context.Context, node, dir string) (string, error) {
	q := url.Values{"user": {"system:node:" + node}, "group": {"system:nodes"}}
	text, err := c.request(ctx, http.MethodGet, "/kubeconfig?"+q.Encode(), nil)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "kubeconfig")
	return path, os.WriteFile(path, text, 0o600)
}
