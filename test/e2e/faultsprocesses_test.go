// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

func (f *faulty) stopPart(part bed.Part) {
	f.Helper()
	if err := f.StopPart(f.Context(), part); err != nil {
		f.Fatal(err)
	}
}

func (f *faulty) startPart(part bed.Part) {
	f.Helper()
	if err := f.StartPart(f.Context(), part); err != nil {
		f.Fatal(err)
	}
}

func faultsOfParts() []fault {
	part := func(name string, p bed.Part) fault {
		return fault{name: name, lasts: 15 * time.Second, begin: func(f *faulty) { f.stopPart(p) }, end: func(f *faulty) { f.startPart(p) }}
	}
	return []fault{
		part("controllers of the cluster away", bed.Controllers),
		part("scheduler away", bed.Scheduler),
		part("API server restarts", bed.APIServer),
		slowEtcd(),
		nodesDeleted(2),
	}
}

// slowEtcd returns a fault in which etcd stands still for half of the time.
func slowEtcd() fault {
	const pause = 300 * time.Millisecond
	var (
		over   chan struct{}
		ending sync.WaitGroup
	)
	return fault{name: "etcd stands still 300 ms in each 600 ms", lasts: 25 * time.Second, begin: func(f *faulty) {
		over = make(chan struct{})
		ending.Go(func() {
			for {
				if err := f.SignalPart(bed.Etcd, syscall.SIGSTOP); err != nil {
					f.Error(err)
				}
				f.wait(pause)
				if err := f.SignalPart(bed.Etcd, syscall.SIGCONT); err != nil {
					f.Error(err)
				}
				select {
				case <-over:
					return
				default:
					f.wait(pause)
				}
			}
		})
	}, end: func(*faulty) {
		close(over)
		ending.Wait()
	}}
}

// nodesDeleted returns a fault in which a pool of nodes is scaled to zero: its Node objects and the pods on them are deleted. Then the nodes are back.
func nodesDeleted(n int) fault {
	var saved []corev1.Node
	return fault{name: fmt.Sprintf("%d of 3 nodes deleted", n), lasts: 30 * time.Second, begin: func(f *faulty) {
		nodes, err := f.CoreV1().Nodes().List(f.Context(), metav1.ListOptions{})
		f.must(err)
		saved = nodes.Items[:n]
		for i := range saved {
			f.must(f.CoreV1().Nodes().Delete(f.Context(), saved[i].Name, metav1.DeleteOptions{}))
			pods, err := f.CoreV1().Pods("").List(f.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + saved[i].Name})
			f.must(err)
			for _, pod := range pods.Items {
				f.must(ignoreNotFound(f.CoreV1().Pods(pod.Namespace).Delete(f.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})))
			}
		}
	}, end: func(f *faulty) {
		for i := range saved {
			node := saved[i].DeepCopy()
			node.ResourceVersion, node.UID = "", ""
			node.Spec.Taints = nil
			_, err := f.CoreV1().Nodes().Create(f.Context(), node, metav1.CreateOptions{})
			f.must(err)
			f.eventually("node "+node.Name+" has its status", time.Minute, func(ctx context.Context) error { // other clients write the object, too
				live, err := f.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
				if err == nil {
					live.Status = node.Status
					_, err = f.CoreV1().Nodes().UpdateStatus(ctx, live, metav1.UpdateOptions{})
				}
				return err
			})
		}
		f.eventually("the nodes are ready", time.Minute, func(ctx context.Context) error {
			nodes, err := f.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for i := range nodes.Items {
				if node := &nodes.Items[i]; len(node.Spec.Taints) > 0 {
					return fmt.Errorf("node %s has the taints %v", node.Name, node.Spec.Taints)
				}
			}
			return nil
		})
	}}
}

func faultsOfProcesses() []fault {
	var all []fault
	kill := func(names ...string) fault {
		return fault{name: "SIGKILL of " + strings.Join(names, ", "), kind: "SIGKILL", kills: true,
			begin: func(f *faulty) { f.killComponents(names...) }, end: func(f *faulty) { f.startComponents(names...) }}
	}
	for _, name := range componentNames {
		all = append(all, kill(name), killedAtWrites(name, 4, false), killedAtWrites(name, 8, true), fault{name: "SIGSTOP of " + name + " for 40 s", kind: "SIGSTOP", lasts: 40 * time.Second,
			begin: func(f *faulty) { f.must((*f.process(name)).Suspend()) }, end: func(f *faulty) { f.must((*f.process(name)).Resume()) }})
	}
	second := fault{name: "two updaters without leader election", lasts: 30 * time.Second, allowed: invariant.SoleLeader}
	var other *bed.Podfit
	second.begin = func(f *faulty) {
		var err error
		other, err = f.healthy(f.Context(), f.component(secondOf("updater")))
		f.must(err)
	}
	second.end = func(*faulty) { other.Kill() }
	return append(all, kill(componentNames...), second, twoLeaders("recommender", "vpa-recommender-lease"), twoLeaders("updater", "vpa-updater"),
		clockShifted("ahead", time.Hour), clockShifted("back", -time.Hour))
}

// killedAtWrites returns a fault in which a component is killed after its first write, then the next one after its second write, and so on. The write is
// stored, and the component does not get the answer.
func killedAtWrites(name string, most int, long bool) fault {
	return fault{name: fmt.Sprintf("SIGKILL of %s after each of its first %d writes", name, most), kind: "SIGKILL after a write", kills: true, long: long, begin: func(f *faulty) {
		f.killComponents(name)
		reached := 0
		for n := range most {
			if f.killedAfterWrite(name, n+1) {
				reached++
			}
		}
		if f.Logf("%d of %d writes were reached", reached, most); reached < most/2 {
			f.Errorf("only %d of %d writes were reached", reached, most)
		}
	}, end: func(f *faulty) { f.startComponents(name) }}
}

// killedAfterWrite starts a component and kills it after its n-th write. If it writes less, it is killed after a time.
func (f *faulty) killedAfterWrite(name string, n int) bool {
	f.Helper()
	var starting sync.Mutex
	killed := make(chan struct{})
	d := f.doors[name]
	d.atWrite = func() {
		starting.Lock()
		defer starting.Unlock()
		f.killAtOnce(name)
		close(killed)
	}
	starting.Lock()
	d.left.Store(int32(n))
	p, err := f.Cluster.Run(f.Context(), f.binary, f.component(name))
	if err == nil {
		*f.process(name) = p
	}
	starting.Unlock()
	f.must(err)
	f.must(f.provoke(f.Context()))
	enough := time.NewTimer(20 * time.Second)
	defer enough.Stop()
	select {
	case <-killed:
		return true
	case <-enough.C:
	}
	d.left.Store(0)
	p.Kill()
	return false
}

// twoLeaders returns a fault in which the requests of the leader for its lease are not answered, so that another process becomes the leader. The former one
// must not act any more.
func twoLeaders(name, lease string) fault {
	const elect = "--leader-elect"
	holder := func(f *faulty, ctx context.Context) (string, error) {
		l, err := f.CoordinationV1().Leases(bed.Namespace).Get(ctx, lease, metav1.GetOptions{})
		if err != nil || l.Spec.HolderIdentity == nil {
			return "", err
		}
		return *l.Spec.HolderIdentity, nil
	}
	var second *bed.Podfit
	return fault{name: "lease requests of the leading " + name + " hang for 30 s", kind: "two leaders", kills: true, begin: func(f *faulty) {
		f.killComponents(name)
		f.startAs(name, f.component(name).With(elect))
		first := ""
		f.eventually("it leads", time.Minute, func(ctx context.Context) (err error) {
			if first, err = holder(f, ctx); err == nil && first == "" {
				err = errors.New("the lease has no holder")
			}
			return err
		})
		var err error
		second, err = f.Cluster.Run(f.Context(), f.binary, f.component(secondOf(name)).With(elect))
		f.must(err)
		f.wait(5 * time.Second) // it waits for the lease
		f.doors[name].hangs.Store(true)
		for range 3 { // both have something to do all the time
			f.must(f.provoke(f.Context()))
			f.wait(10 * time.Second)
		}
		now, err := holder(f, f.Context())
		f.must(err)
		if now == first {
			f.Errorf("%s still holds the lease", now)
		}
	}, end: func(f *faulty) {
		f.doors[name].hangs.Store(false)
		second.Kill()
		f.killAtOnce(name)
		f.startComponents(name)
	}}
}

// clockShifted returns a fault in which the clocks of the three components are wrong: they are started with wrong clocks, and then with right ones.
func clockShifted(direction string, by time.Duration) fault {
	return fault{name: "clock 1 h " + direction, lasts: 25 * time.Second, kills: true, begin: func(f *faulty) {
		shifted, err := bed.BuildShifted(f.Context(), f.root, os.Stderr)
		f.must(err)
		right := f.binary
		f.binary, f.env = shifted, []string{fmt.Sprintf("%s=%d", bed.ClockShift, int(by.Seconds()))}
		defer func() { f.binary, f.env = right, nil }()
		f.killComponents(componentNames...)
		f.startComponents(componentNames...)
		f.eventually("the clock is shifted: the admission controller renews its lease at another time", time.Minute, func(ctx context.Context) error {
			l, err := f.CoordinationV1().Leases(bed.Namespace).Get(ctx, "vpa-admission-controller", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if wrong := time.Until(l.Spec.RenewTime.Time) - by; wrong.Abs() > 5*time.Minute {
				return fmt.Errorf("the lease was renewed at %v", l.Spec.RenewTime)
			}
			return nil
		})
		f.must(f.provoke(f.Context()))
	}, end: func(f *faulty) {
		f.killComponents(componentNames...)
		f.startComponents(componentNames...)
	}}
}
