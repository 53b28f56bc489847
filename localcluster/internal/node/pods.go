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

// podSource is the kubelet's standard source of pods, the API server, with two additions: it passes owners and current
// annotations to the runtime, and it changes pods so that the kubelet opens no connection to them.
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

// onTheWay calls see with the pods of each update before it forwards the update; see may change them. The type of the updates
// is internal to the kubelet, so reflection is used to read the field Pods.
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

// withoutNetwork replaces the handlers of probes and hooks by commands, because nothing listens at the addresses of simulated
// pods. The kubelet's prober runs them at the intervals of the pod.
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
