// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// Options say what cluster to start.
type Options struct {
	Root       string // of podfit's repository
	Nodes      int
	NodeCPU    string
	NodeMemory string
	Progress   io.Writer // where building tells how far it is
}

// A Cluster is a running local cluster.
type Cluster struct {
	*Kube
	*Process
	Kubeconfig string // of its administrator
	Dir        string // where logs and identities are kept; gone when the cluster is down
}

// startup is how long a cluster may take to be ready, once everything is built.
const startup = 2 * time.Minute

// Up builds what is missing and starts a cluster, and returns when it is ready.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	tool, err := buildTool(ctx, o)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "podfit-bed-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the cluster: %w", err)
	}
	c := &Cluster{Dir: dir}
	if err := c.up(ctx, tool, o); err != nil {
		c.Down()
		return nil, err
	}
	return c, nil
}

// buildTool builds the local cluster's own command, and has it build the control plane.
func buildTool(ctx context.Context, o Options) (string, error) {
	module := filepath.Join(o.Root, "localcluster")
	tool := filepath.Join(o.Root, ".cache", "bin", "localcluster")
	if err := goBuild(ctx, module, tool, o.Progress); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, tool, "build")
	cmd.Dir, cmd.Stdout, cmd.Stderr = module, o.Progress, o.Progress
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build the control plane: %w", err)
	}
	return tool, nil
}

func (c *Cluster) up(ctx context.Context, tool string, o Options) error {
	ready := filepath.Join(c.Dir, "ready")
	args := []string{
		"up", "--state-dir=" + filepath.Join(c.Dir, "cluster"), "--ready-file=" + ready,
		"--nodes=" + strconv.Itoa(o.Nodes), "--node-cpu=" + o.NodeCPU, "--node-memory=" + o.NodeMemory,
	}
	p, err := Start(Command{
		Name: "localcluster", Path: tool, Args: args, Dir: filepath.Join(o.Root, "localcluster"),
		Log: filepath.Join(c.Dir, "localcluster.log"),
	})
	if err != nil {
		return err
	}
	c.Process = p
	ctx, cancel := context.WithTimeout(ctx, startup)
	defer cancel()
	err = Until(ctx, 100*time.Millisecond, func(context.Context) error {
		if !p.Running() {
			return nil
		}
		_, err := os.Stat(ready)
		return err
	})
	if err != nil || !p.Running() {
		return fmt.Errorf("start the cluster: %w\n%s", errors.Join(err, errors.New("see its log")), p.Tail(40))
	}
	c.Kubeconfig = filepath.Join(c.Dir, "cluster", "kubeconfig")
	c.Kube, err = NewKube(c.Kubeconfig)
	return err
}

// Down ends the cluster and removes its files.
func (c *Cluster) Down() error {
	var err error
	if c.Process != nil {
		err = c.Process.Stop()
	}
	return errors.Join(err, os.RemoveAll(c.Dir))
}
