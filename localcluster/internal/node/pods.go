// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"reflect"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubelettypes "k8s.io/kubernetes/pkg/kubelet/types"
	"podfit.dev/podfit/localcluster/internal/engine"
	"podfit.dev/podfit/localcluster/internal/scenario"
)

// podSource is the kubelet's usual source of pods, the API server, with two additions: the runtime learns owners and
// current annotations, and nothing that the kubelet sees makes it open a connection to a pod.
func podSource(ctx context.Context, client clientset.Interface, node string, c *config.PodConfig, r *engine.Runtime) {
	config.NewSourceApiserver(klog.FromContext(ctx), client, types.NodeName(node), func() bool { return true },
		onTheWay(c.Channel(ctx, kubelettypes.ApiserverSource), func(pods []*v1.Pod) {
			known := map[string]engine.Pod{}
			for i, p := range pods {
				known[string(p.UID)] = engine.Pod{Owner: owner(p), Labels: p.Labels, Annotations: p.Annotations}
				pods[i] = withoutNetwork(p)
			}
			r.Learn(known)
		}))
}

// onTheWay lets see and change the pods of each update. The type of the updates is the kubelet's secret; that they
// have a field Pods is not.
func onTheWay[Update any](to chan<- Update, see func(pods []*v1.Pod)) chan<- Update {
	from := make(chan Update)
	go func() {
		for u := range from {
			see(reflect.ValueOf(u).FieldByName("Pods").Interface().([]*v1.Pod))
			to <- u
		}
	}()
	return from
}

func owner(p *v1.Pod) string {
	if o := metav1.GetControllerOf(p); o != nil {
		return scenario.Owner(o.Kind, o.Name)
	}
	return ""
}

// withoutNetwork turns probes and hooks into commands: the addresses of simulated pods lead nowhere, or, worse, to
// somebody. The real prober runs them, as often as the pod says.
func withoutNetwork(p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			ask(c.ReadinessProbe, engine.AskReady)
			ask(c.StartupProbe, engine.AskReady)
			ask(c.LivenessProbe, engine.AskAlive)
			if c.Lifecycle != nil {
				for _, h := range []*v1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
					if h != nil {
						*h = v1.LifecycleHandler{Exec: &v1.ExecAction{Command: engine.AskAlive}}
					}
				}
			}
		}
	}
	return p
}

func ask(p *v1.Probe, command []string) {
	if p != nil {
		p.ProbeHandler = v1.ProbeHandler{Exec: &v1.ExecAction{Command: command}}
	}
}
