// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Options say what cluster to start.
type Options struct {
	Root       string // of podfit's repository
	Nodes      int
	NodeCPU    int // cores
	NodeMemory string
	Metrics    time.Duration // how often usage is measured
	Audit      bool          // write the audit log that Witness needs
	Progress   io.Writer     // where building tells how far it is
}

// A Cluster is a running local cluster.
type Cluster struct {
	*Kube
	*Process
	Kubeconfig string // of its administrator
	Dir        string // where logs and identities are kept; gone when the cluster is down

	control  string // URL
	auditLog string // path, "" when there is none
}

// startup is how long a cluster may take to be ready, once everything is built.
const startup = 3 * time.Minute

// Up builds what is missing and starts a cluster, and returns when it is ready.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	tool, err := BuildCluster(ctx, o)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "podfit-bed-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the cluster: %w", err)
	}
	c := &Cluster{Dir: dir}
	if err := c.up(ctx, tool, o); err != nil {
		return nil, errors.Join(err, c.Down())
	}
	return c, nil
}

// BuildCluster builds the local cluster's own command, and has it build the control plane. It returns the command's path.
func BuildCluster(ctx context.Context, o Options) (string, error) {
	module := filepath.Join(o.Root, "localcluster")
	cmd := exec.CommandContext(ctx, "go", "run", "./cmd/localcluster", "build")
	cmd.Dir, cmd.Stdout, cmd.Stderr = module, io.Discard, o.Progress
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build the local cluster: %w", err)
	}
	return filepath.Join(o.Root, ".cache", "bin", "localcluster"), nil
}

func (c *Cluster) up(ctx context.Context, tool string, o Options) error {
	ready := filepath.Join(c.Dir, "ready.json")
	args := []string{
		"up", "--state-dir=" + filepath.Join(c.Dir, "cluster"), "--ready-file=" + ready,
		"--nodes=" + strconv.Itoa(o.Nodes), "--node-cpu=" + strconv.Itoa(o.NodeCPU), "--node-memory=" + o.NodeMemory,
		"--metric-resolution=" + o.Metrics.String(),
	}
	if o.Audit {
		policy := filepath.Join(c.Dir, "audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
			return fmt.Errorf("write the audit policy: %w", err)
		}
		args = append(args, "--audit-policy="+policy)
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
	var text []byte
	err = Until(ctx, 100*time.Millisecond, func(context.Context) (err error) {
		if text, err = os.ReadFile(ready); err != nil && !p.Running() {
			text, err = nil, nil // no need to wait any longer
		}
		return err
	})
	if err != nil || text == nil {
		return fmt.Errorf("start the cluster: %w\n%s", errors.Join(err, p.Err()), p.Tail(40))
	}
	var info struct{ Kubeconfig, Control, AuditLog string }
	if err := json.Unmarshal(text, &info); err != nil {
		return fmt.Errorf("read %s: %w", ready, err)
	}
	c.Kubeconfig, c.control, c.auditLog = info.Kubeconfig, info.Control, info.AuditLog
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

// A Part is a part of the cluster.
type Part string

// The parts that tests take away, or want to see the logs of.
const (
	APIServer     Part = "kube-apiserver"
	MetricsServer Part = "metrics-server"
	Controllers   Part = "kube-controller-manager"
)

// PartTail returns the last lines of a part's output.
func (c *Cluster) PartTail(p Part, lines int) string {
	return tail(filepath.Join(c.Dir, "cluster", "logs", string(p)+".log"), lines)
}

// StopPart stops a part, and returns when it has ended.
func (c *Cluster) StopPart(ctx context.Context, p Part) error { return c.part(ctx, p, "stop") }

// StartPart starts a part that was stopped, and returns when it works.
func (c *Cluster) StartPart(ctx context.Context, p Part) error { return c.part(ctx, p, "start") }

func (c *Cluster) part(ctx context.Context, p Part, do string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.control+"/parts/"+string(p)+"/"+do, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", do, p, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		b, err := io.ReadAll(resp.Body)
		return fmt.Errorf("%s %s: %w", do, p, errors.Join(errors.New(resp.Status+" "+strings.TrimSpace(string(b))), err))
	}
	return nil
}
