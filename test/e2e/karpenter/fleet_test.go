// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/test/e2e/bed"
)

// A fleet has the machines of the nodes that Karpenter creates. Karpenter's KWOK provider only creates Node objects; the fleet starts a kubelet for each, and
// ends it when the object is gone, as a cloud does with machines.
type fleet struct {
	w      *world
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu       sync.Mutex
	machines map[string]*machine // by node
}

// A machine is a machine of a node.
type machine struct {
	kubelet     *bed.Process
	added, gone time.Time // when the Node object was seen first, and not any more
}

// newFleet starts to watch the nodes.
func newFleet(w *world) *fleet {
	ctx, cancel := context.WithCancel(context.Background())
	f := &fleet{w: w, cancel: cancel, machines: map[string]*machine{}}
	f.wait.Go(func() {
		_ = bed.Until(ctx, 250*time.Millisecond, func(ctx context.Context) error { // ends with ctx, or after an error
			err := f.follow(ctx)
			if err == nil || ctx.Err() != nil || apierrors.IsNotFound(err) { // deleted after it was listed
				return errors.New("the test runs")
			}
			w.Errorf("machines of the nodes: %v", err)
			return nil
		})
	})
	return f
}

// end stops all machines.
func (f *fleet) end() {
	f.cancel()
	f.wait.Wait()
	for _, m := range f.machines {
		m.kubelet.Kill()
	}
}

// follow starts the machines of new nodes, and ends those of deleted ones.
func (f *fleet) follow(ctx context.Context) error {
	l, err := f.w.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	exists := map[string]bool{}
	for i := range l.Items {
		n := &l.Items[i]
		exists[n.Name] = true
		if _, known := f.machines[n.Name]; known || !strings.HasPrefix(n.Spec.ProviderID, "kwok://") {
			continue
		}
		if err := f.add(ctx, n); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, m := range f.machines {
		switch {
		case !m.gone.IsZero():
		case !exists[name]:
			m.gone = time.Now()
			m.kubelet.Kill()
		case !m.kubelet.Running():
			return fmt.Errorf("the kubelet of node %s exited: %w\n%s", name, m.kubelet.Err(), m.kubelet.Tail(20))
		}
	}
	return nil
}

// add starts the machine of a node.
func (f *fleet) add(ctx context.Context, n *corev1.Node) error {
	kind := n.Labels[corev1.LabelInstanceTypeStable]
	i := slices.IndexFunc(types4and8, func(t instanceType) bool { return t.name == kind })
	if i < 0 {
		return fmt.Errorf("node %s has the unknown instance type %q", n.Name, kind)
	}
	index := len(f.w.Nodes()) + len(f.machines)
	kubelet, err := f.w.Join(ctx, bed.Machine{Node: n.Name, Index: index, Cores: types4and8[i].cores, Memory: types4and8[i].memory})
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.machines[n.Name] = &machine{kubelet: kubelet, added: time.Now()}
	return nil
}

// counts returns how many nodes Karpenter has added, and how many of them exist.
func (f *fleet) counts() (added, present int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.machines {
		if m.gone.IsZero() {
			present++
		}
	}
	return len(f.machines), present
}
