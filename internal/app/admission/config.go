// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
)

// Config is the admission controller's configuration.
type Config struct {
	process.Common

	ClientCAFile, CertFile, KeyFile string
	ReloadCert                      bool
	Ciphers, MinTLSVersion          string
	Port                            int
	Address                         string
	Service                         string
	ServiceNamespace                string // where the service is: the NAMESPACE variable, else kube-system
	WebhookAddress, WebhookPort     string
	ByURL, Register                 bool
	TimeoutSeconds                  int
	FailurePolicyFail               bool
	Labels                          string
	StatusName, StatusNamespace     string
	StatusInterval                  time.Duration
	MaxCPUBoost                     process.Quantity

	NoProfiles bool // the recommender of this process serves no profiles
}

// Defaults returns upstream's defaults.
func Defaults() Config {
	return Config{
		Common:       process.CommonDefaults(),
		ClientCAFile: "/etc/tls-certs/caCert.pem", CertFile: "/etc/tls-certs/serverCert.pem", KeyFile: "/etc/tls-certs/serverKey.pem",
		MinTLSVersion: "tls1_2", Port: 8000, Address: ":8944", Service: "vpa-webhook", Register: true, TimeoutSeconds: 30,
		StatusName: "vpa-admission-controller", StatusInterval: 10 * time.Second,
	}
}

// Flags binds the configuration to flags, with upstream's names.
func (c *Config) Flags(fs *pflag.FlagSet) {
	c.Common.Flags(fs)
	c.OwnFlags(fs)
	fs.StringVar(&c.Address, "address", c.Address, "Address of /metrics and /health-check.")
}

// OwnFlags binds what only the admission controller has.
func (c *Config) OwnFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ClientCAFile, "client-ca-file", c.ClientCAFile, "File with the CA that the API server trusts the webhook by.")
	fs.StringVar(&c.CertFile, "tls-cert-file", c.CertFile, "File with the webhook's certificate. When it does not exist, podfit makes and renews its own.")
	fs.StringVar(&c.KeyFile, "tls-private-key", c.KeyFile, "File with the key of the webhook's certificate.")
	fs.BoolVar(&c.ReloadCert, "reload-cert", c.ReloadCert, "Read the certificate files again when they change.")
	fs.StringVar(&c.Ciphers, "tls-ciphers", c.Ciphers, "Comma-separated or colon-separated TLS cipher suites for TLS 1.2. Empty means Go's choice.")
	fs.StringVar(&c.MinTLSVersion, "min-tls-version", c.MinTLSVersion, "Least TLS version: tls1_2 or tls1_3.")
	fs.IntVar(&c.Port, "port", c.Port, "Port the webhook listens on.")
	fs.StringVar(&c.Service, "webhook-service", c.Service, "Name of the service in front of the webhook.")
	fs.StringVar(&c.WebhookAddress, "webhook-address", c.WebhookAddress, "Address of the webhook for --register-by-url.")
	fs.StringVar(&c.WebhookPort, "webhook-port", c.WebhookPort, "Port of the webhook for --register-by-url.")
	fs.BoolVar(&c.ByURL, "register-by-url", c.ByURL, "Register the webhook by URL instead of by service.")
	fs.BoolVar(&c.Register, "register-webhook", c.Register, "Register the webhook.")
	fs.IntVar(&c.TimeoutSeconds, "webhook-timeout-seconds", c.TimeoutSeconds, "How long the API server waits for the webhook.")
	fs.BoolVar(&c.FailurePolicyFail, "webhook-failure-policy-fail", c.FailurePolicyFail, "Refuse pods while the webhook does not answer. Default is to let them pass.")
	fs.StringVar(&c.Labels, "webhook-labels", c.Labels, "Labels of the webhook's configuration, as key:value,key:value.")
	fs.StringVar(&c.StatusName, "status-lease-name", c.StatusName, "Name of the lease by which the updater knows that the webhook works.")
	fs.StringVar(&c.StatusNamespace, "status-lease-namespace", c.StatusNamespace, "Namespace of that lease. Empty means the NAMESPACE variable, else kube-system.")
	fs.DurationVar(&c.StatusInterval, "status-lease-update-interval", c.StatusInterval, "How often that lease is renewed.")
	fs.Var(&c.MaxCPUBoost, "max-allowed-cpu-boost", "Most CPU a startup boost may give a container.")
}

// Validate says what is wrong with the configuration, naming the flag and the remedy.
func (c *Config) Validate() error { return errors.Join(c.Common.Validate(), c.ValidateOwn()) }

// ValidateOwn says what is wrong with what only the admission controller has.
func (c *Config) ValidateOwn() error {
	var errs []error
	if c.Port < 0 || c.Port > 65535 {
		errs = append(errs, fmt.Errorf("--port is %d: give a port from 0 to 65535", c.Port))
	}
	if c.TimeoutSeconds < 1 || c.TimeoutSeconds > 30 {
		errs = append(errs, fmt.Errorf("--webhook-timeout-seconds is %d: Kubernetes allows 1 to 30", c.TimeoutSeconds))
	}
	if c.MinTLSVersion != "tls1_2" && c.MinTLSVersion != "tls1_3" {
		errs = append(errs, fmt.Errorf("--min-tls-version is %q: give tls1_2 or tls1_3", c.MinTLSVersion))
	}
	if c.ByURL && c.WebhookAddress == "" {
		errs = append(errs, errors.New("--register-by-url needs --webhook-address, the address under which the API server reaches the webhook"))
	}
	if _, err := c.labels(); err != nil {
		errs = append(errs, err)
	}
	if c.StatusInterval <= 0 {
		errs = append(errs, fmt.Errorf("--status-lease-update-interval is %v: give a time above 0", c.StatusInterval))
	}
	return errors.Join(errs...)
}

func (c *Config) labels() (map[string]string, error) {
	out := map[string]string{}
	for item := range strings.SplitSeq(c.Labels, ",") {
		if item == "" {
			continue
		}
		k, v, ok := strings.Cut(item, ":")
		if !ok || k == "" {
			return nil, fmt.Errorf("--webhook-labels has %q: give key:value", item)
		}
		out[strings.TrimSpace(k)] = strings.TrimSpace(v)
	}
	return out, nil
}
