// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/kubelet"
)

const (
	kubeletInterval    = 5 * time.Second // between two rounds
	kubeletTimeout     = 3 * time.Second // of a node
	kubeletBackoff     = time.Minute     // of a node that could not be read
	kubeletAge         = 2 * time.Minute // of a container of which the Metrics API has a sample
	maxKubelets        = 50              // nodes in a round, 10 at a time
	maxKubeletReadings = 20_000          // between two passes: 4 MB
)

// kubelets reads the usage of runs that have just begun.
type kubelets struct {
	client *kubelet.Client
	world  world
	age    time.Duration // up to which a container is read
	init   bool          // init containers are sized by run
	health *process.Health
	log    *slog.Logger
	turn   int // the node with which a round begins, if there are too many

	mu       sync.Mutex
	governed map[cluster.Workload]bool
	readings []kubeletReading
	retry    map[string]time.Time // by node that could not be read last
	said     bool                 // that was logged
}

type kubeletReading struct {
	usage.Sample
	of *cluster.Pod
}

// newKubelets returns the work that reads kubelets, and sets them in the dependencies. It is nil if that is off.
func newKubelets(c *Config, clients *kube.Clients, world *watcher.World, d *dependencies) (func(context.Context) error, error) {
	if !c.KubeletUsage || !c.usage().Runs {
		return nil, nil
	}
	client, err := kubelet.New(clients.Config, c.KubeletInsecure)
	d.kubelets = &kubelets{
		client: client, world: world, age: kubeletAge + c.Interval, init: c.usage().InitRuns, health: d.health, log: d.log, retry: map[string]time.Time{},
	}
	return afterSync(world, func(ctx context.Context) { process.Every(ctx, kubeletInterval, d.kubelets.round) }), err
}

// swap returns the readings since the last call, and sets the workloads whose runs are read. The map must not change.
func (k *kubelets) swap(governed map[cluster.Workload]bool) []kubeletReading {
	k.mu.Lock()
	defer k.mu.Unlock()
	taken := k.readings
	k.readings = nil
	k.governed = governed
	return taken
}

// round reads each node once that has runs which have just begun.
func (k *kubelets) round(ctx context.Context, now time.Time) {
	k.mu.Lock()
	governed := k.governed
	k.mu.Unlock()
	pods := map[string]map[cluster.Key]*cluster.Pod{} // by node
	for _, p := range k.world.Snapshot().Pods {
		hasBegun := func(c cluster.Container) bool {
			begun := p.StartOf(&c)
			return begun > 0 && now.Sub(time.Unix(begun, 0)) < k.age && (usage.HasRuns(p.Top) || k.init && c.Role == cluster.Init)
		}
		if governed[p.Top] && slices.ContainsFunc(p.Containers, hasBegun) {
			if pods[p.Node] == nil {
				pods[p.Node] = map[cluster.Key]*cluster.Pod{}
			}
			pods[p.Node][p.Key] = p
		}
	}
	due := k.world.Nodes()
	maps.DeleteFunc(k.retry, func(node string, _ time.Time) bool {
		return !slices.ContainsFunc(due, func(n cluster.Node) bool { return n.Name == node })
	})
	due = slices.DeleteFunc(due, func(n cluster.Node) bool {
		return pods[n.Name] == nil || n.Kubelet == "" || now.Before(k.retry[n.Name])
	})
	k.turn = (k.turn + maxKubelets) % max(len(due), 1)
	due = slices.Concat(due[k.turn:], due[:k.turn])
	process.Each(10, due[:min(len(due), maxKubelets)], func(n cluster.Node) {
		process.Attempt(k.log, k.health, n.Name, func() { k.read(ctx, now, &n, pods[n.Name]) })
	})
	k.said = k.said && len(k.retry) > 0
}

func (k *kubelets) read(ctx context.Context, now time.Time, n *cluster.Node, pods map[cluster.Key]*cluster.Pod) {
	limited, cancel := context.WithTimeout(ctx, kubeletTimeout)
	defer cancel()
	samples, err := k.client.Read(limited, n.Kubelet, pods)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range samples[:min(len(samples), maxKubeletReadings-len(k.readings))] {
		k.readings = append(k.readings, kubeletReading{s, pods[s.Pod]})
	}
	if err == nil || ctx.Err() != nil { // or the process ends
		delete(k.retry, n.Name)
		return
	}
	k.retry[n.Name] = now.Add(kubeletBackoff)
	if !k.said {
		k.log.Warn("Cannot read usage from the kubelet of a node; runs that are too short for the Metrics API are not measured there", slog.String("node", n.Name), slog.Any("error", err),
			slog.String("remedy", "after 401, set authentication.webhook.enabled=true in the configuration of the kubelets. After 403, run kubectl apply -f deploy/rights/kubelet-metrics/kubelet-metrics.yaml (chart: rights.kubeletMetrics=true). If the certificate is not trusted, set serverTLSBootstrap=true in the configuration of the kubelets, or --kubelet-insecure-tls on podfit. Or set --kubelet-usage=false"))
	}
	k.said = true
}
