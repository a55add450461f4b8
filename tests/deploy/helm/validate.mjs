// Holds custom resources to the schemas of their definitions: objects as a JSON list on standard input, what is wrong with them on
// standard output, a line each.
import { readFileSync } from "node:fs";
import { HTTPRoute } from "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1/HTTPRoute";
import { ScaledObject } from "@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject";
import { PrometheusRule } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule";
import { ServiceMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor";

const KINDS = { HTTPRoute, ScaledObject, PrometheusRule, ServiceMonitor };

for (const object of JSON.parse(readFileSync(0, "utf-8"))) {
  try {
    new KINDS[object.kind](object).validate();
  } catch (fault) {
    console.log(`${object.kind} ${object.metadata?.name}: ${fault.message}`);
  }
}
