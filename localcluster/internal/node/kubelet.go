// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"time"

	noop "go.opentelemetry.io/otel/trace/noop"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/config"
	containertest "k8s.io/kubernetes/pkg/kubelet/container/testing"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
	"k8s.io/kubernetes/pkg/util/oom"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/downwardapi"
	"k8s.io/kubernetes/pkg/volume/emptydir"
	"k8s.io/kubernetes/pkg/volume/projected"
	"k8s.io/kubernetes/pkg/volume/secret"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	"k8s.io/mount-utils"
	"podfit.dev/podfit/localcluster/internal/engine"
)

// Reserved for the system on each node: the difference between a node's capacity and its allocatable resources.
const (
	reservedMilliCPU = 100
	reservedMemory   = 100 << 20
	evictBelow       = "100Mi"
)

// startKubelet starts a node's kubelet. It runs until the process exits, because a kubelet cannot be stopped.
func startKubelet(ctx context.Context, c Config, n Node, r *engine.Runtime) error {
	kubeconfig, err := clientcmd.BuildConfigFromFlags("", n.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read %s: %w", n.Kubeconfig, err)
	}
	kubeconfig.ContentConfig = rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON}
	kubeconfig.QPS = 50
	kubeconfig.Burst = 100
	client, err := clientset.NewForConfig(kubeconfig)
	if err != nil {
		return err
	}
	heartbeat := rest.CopyConfig(kubeconfig)
	heartbeat.QPS = -1
	heartbeat.Timeout = 10 * time.Second
	heartbeatClient, err := clientset.NewForConfig(heartbeat)
	if err != nil {
		return err
	}
	certificate, err := tls.LoadX509KeyPair(c.ServingCert, c.ServingKey)
	if err != nil {
		return fmt.Errorf("read the serving certificate: %w", err)
	}

	flags, settings, err := kubeletOptions(c, n)
	if err != nil {
		return err
	}
	auth, reloadCA, err := kubeletapp.BuildAuth(types.NodeName(n.Name), client, *settings)
	if err != nil {
		return fmt.Errorf("configure how the kubelet of node %s authenticates its clients: %w", n.Name, err)
	}
	reloadCA(ctx.Done())
	deps := &kubelet.Dependencies{
		Auth: auth, KubeClient: client, EventClient: client.CoreV1(), HeartbeatClient: heartbeatClient,
		RemoteRuntimeService: r, RemoteImageService: engine.NewImages(), CAdvisorInterface: observer{r, n.Name, c.Cores, c.Memory, time.Now()},
		ContainerManager: newCgroups(managers(c), resources(int64(c.Cores)*1000, c.Memory), resources(reservedMilliCPU, reservedMemory+100<<20)),
		OSInterface:      &containertest.FakeOS{}, Mounter: &mount.FakeMounter{}, Subpather: &subpath.FakeSubpath{},
		HostUtil: hostutil.NewFakeHostUtil(nil), OOMAdjuster: oom.NewFakeOOMAdjuster(), VolumePlugins: volumePlugins(),
		PodStartupLatencyTracker: kubeletutil.NewPodStartupLatencyTracker(), NodeStartupLatencyTracker: kubeletutil.NewNodeStartupLatencyTracker(),
		TracerProvider: noop.NewTracerProvider(),
		// The authenticator verifies the certificates of clients.
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert},
	}
	// With a real recorder the kubelet reads the kernel's log to detect OOM kills, which requires root. Without root, the
	// kubelet records no events.
	if f, err := os.Open("/dev/kmsg"); err == nil {
		f.Close()
	} else {
		deps.Recorder = &record.FakeRecorder{}
	}
	deps.PodConfig = config.NewPodConfig(deps.Recorder, deps.PodStartupLatencyTracker)
	podSource(ctx, client, n.Name, deps.PodConfig, r)
	return kubeletapp.RunKubelet(ctx, &options.KubeletServer{KubeletFlags: *flags, KubeletConfiguration: *settings}, deps)
}

func kubeletOptions(c Config, n Node) (*options.KubeletFlags, *kubeletconfig.KubeletConfiguration, error) {
	for _, dir := range []string{"manifests", "logs", "certs"} {
		if err := os.MkdirAll(filepath.Join(n.Root, dir), 0o755); err != nil {
			return nil, nil, err
		}
	}
	f := options.NewKubeletFlags()
	f.RootDirectory = n.Root
	f.CertDirectory = filepath.Join(n.Root, "certs")
	f.HostnameOverride = n.Name
	f.CloudProvider = "external" // keeps the addresses of the Node object; a kubelet would not choose 127.0.0.1
	f.MinimumGCAge = metav1.Duration{Duration: time.Minute}
	f.MaxPerPodContainerCount = 2
	f.MaxContainerCount = 100

	s, err := options.NewKubeletConfiguration()
	if err != nil {
		return nil, nil, err
	}
	s.Address = "127.0.0.1"
	s.Port = n.Port
	s.ReadOnlyPort = 0
	s.EnableServer = true
	// As in clusters that kubeadm creates, the kubelet asks the API server about each token and permission.
	s.Authentication.X509.ClientCAFile = c.ClientCA
	s.Authentication.Anonymous.Enabled = false
	s.Authentication.Webhook.Enabled = true
	s.Authorization.Mode = kubeletconfig.KubeletAuthorizationModeWebhook
	// Permissions that a test changes apply at once.
	s.Authorization.Webhook.CacheAuthorizedTTL = metav1.Duration{Duration: 5 * time.Second}
	s.Authorization.Webhook.CacheUnauthorizedTTL = metav1.Duration{Duration: time.Second}
	s.StaticPodPath = filepath.Join(n.Root, "manifests")
	s.PodLogsDir = filepath.Join(n.Root, "logs")
	s.CgroupsPerQOS = true
	s.CgroupRoot = "/"
	s.MaxOpenFiles = 4096
	s.EnableControllerAttachDetach = false
	s.MakeIPTablesUtilChains = false
	s.ResolverConfig = ""
	// There is no DNS server, but pods need an address.
	s.ClusterDNS = []string{"10.0.0.10"}
	s.ClusterDomain = "cluster.local"
	s.RegisterNode = true
	s.MaxPods = 250
	s.SyncFrequency = metav1.Duration{Duration: 10 * time.Second}
	s.NodeStatusUpdateFrequency = metav1.Duration{Duration: 10 * time.Second}
	s.EvictionPressureTransitionPeriod = metav1.Duration{Duration: 30 * time.Second}
	s.EvictionHard = map[string]string{"memory.available": evictBelow}
	s.EventRecordQPS = 50
	s.RegistryPullQPS = 0 // images are simulated, and a refused pull delays a start by 15 seconds
	s.CrashLoopBackOff.MaxContainerRestartPeriod = &metav1.Duration{Duration: c.CrashLoopMax.Duration}
	return f, s, nil
}

func volumePlugins() []volume.VolumePlugin {
	var all []volume.VolumePlugin
	for _, probe := range []func() []volume.VolumePlugin{
		emptydir.ProbeVolumePlugins, secret.ProbeVolumePlugins, configmap.ProbeVolumePlugins, downwardapi.ProbeVolumePlugins, projected.ProbeVolumePlugins,
	} {
		all = append(all, probe()...)
	}
	return all
}

func setFeatureGates() error {
	return utilfeature.DefaultMutableFeatureGate.Set("KubeletCrashLoopBackOffMax=true")
}
