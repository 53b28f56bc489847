// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// describePrometheus adds a Prometheus that scrapes the containers' usage, as in a typical cluster. It accepts samples of the
// past 60 days, so that a test can write a week of history.
func (c *Cluster) describePrometheus(executable string) error {
	c.Info.Prometheus = fmt.Sprintf("http://127.0.0.1:%d", c.Info.Ports.Prometheus)
	c.Info.ScrapeTargets = c.path("prometheus-targets")
	if err := os.MkdirAll(c.Info.ScrapeTargets, 0o755); err != nil {
		return err
	}
	var config strings.Builder
	fmt.Fprintf(&config, "global: {scrape_interval: %[1]s, scrape_timeout: %[1]s}\nstorage: {tsdb: {out_of_order_time_window: 60d}}\nscrape_configs:\n", c.options.MetricResolution)
	fmt.Fprintf(&config, "- job_name: kubernetes-cadvisor\n  scheme: https\n  metrics_path: /metrics/cadvisor\n  tls_config: {ca_file: %q, cert_file: %q, key_file: %q}\n  static_configs:\n",
		c.Info.CA, c.Info.ClientCert, c.Info.ClientKey)
	for i, node := range c.Info.Nodes {
		fmt.Fprintf(&config, "  - targets: ['127.0.0.1:%d']\n    labels: {instance: %[2]q, node: %[2]q}\n", c.Info.Ports.Kubelets[i], node)
	}
	if c.options.StateMetrics {
		fmt.Fprintf(&config, "- job_name: kube-state-metrics\n  honor_labels: true\n  static_configs: [{targets: ['127.0.0.1:%d']}]\n", c.Info.Ports.StateMetrics)
	}
	fmt.Fprintf(&config, "- job_name: others\n  honor_labels: true\n  file_sd_configs: [{files: [%q], refresh_interval: 5s}]\n", c.Info.ScrapeTargets+"/*.json")
	file := c.path("prometheus.yaml")
	if err := WriteFile(file, []byte(config.String()), 0o644); err != nil {
		return err
	}
	c.part("prometheus", 5*time.Second, c.answers(c.Info.Prometheus+"/-/ready"), executable,
		"--config.file="+file, "--storage.tsdb.path="+c.path("prometheus"), "--storage.tsdb.retention.time=90d",
		fmt.Sprintf("--web.listen-address=127.0.0.1:%d", c.Info.Ports.Prometheus), "--web.enable-remote-write-receiver", "--web.enable-admin-api", "--log.level=warn")
	return nil
}

// describeStateMetrics adds kube-state-metrics, which reads the cluster as its administrator.
func (c *Cluster) describeStateMetrics(executable string) {
	p := c.Info.Ports
	c.Info.StateMetrics = fmt.Sprintf("http://127.0.0.1:%d", p.StateMetrics)
	args := []string{executable, "--kubeconfig=" + c.path("admin.kubeconfig"), "--host=127.0.0.1", fmt.Sprintf("--port=%d", p.StateMetrics),
		"--telemetry-host=127.0.0.1", fmt.Sprintf("--telemetry-port=%d", p.StateHealth),
		"--resources=pods,nodes,deployments,statefulsets,replicasets,daemonsets,namespaces", "--metric-labels-allowlist=pods=[podfit.dev/runtime]"}
	if c.options.CustomResources != "" {
		args = append(args, "--custom-resource-state-config-file="+c.options.CustomResources)
	}
	c.part("kube-state-metrics", 3*time.Second, c.answers(fmt.Sprintf("http://127.0.0.1:%d/readyz", p.StateHealth)), args...)
}
