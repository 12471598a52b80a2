// Draws the charts in the reader's light or dark theme and keeps their step axes together.
(() => {
  "use strict";
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const charts = () => [...document.querySelectorAll(".chart")];
  const narrow = () => window.innerWidth < 720;
  const form = document.getElementById("zoom");
  const config = {
    displaylogo: false, responsive: true, doubleClick: "reset",
    // Named one by one: the default bar holds a button that sends the chart to plotly's servers.
    modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]],
    plotlyServerURL: "", showSendToCloud: false,
  };

  // "@ink" -> the theme's colour, anywhere in a figure. (Live: it follows a change of theme.)
  const style = getComputedStyle(document.documentElement);
  function themed(value) {
    if (typeof value === "string" && value[0] === "@") {
      return style.getPropertyValue("--" + value.slice(1)).trim() || value;
    }
    if (Array.isArray(value)) return value.map(themed);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, themed(v)]));
    }
    return value;
  }

  function axis(given) {
    return {
      gridcolor: "@grid", linecolor: "@line", zerolinecolor: "@grid", automargin: false,
      tickfont: { size: 11 }, ...given,
    };
  }

  function layout(figure) {
    const given = figure.layout;
    const all = {
      ...given, height: figure.height, autosize: true,
      margin: { l: narrow() ? 76 : 160, r: narrow() ? 60 : 90, t: 28, b: 40 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: "@ink", family: getComputedStyle(document.body).fontFamily, size: 12 },
      hoverlabel: { bgcolor: "@panel", bordercolor: "@line", font: { color: "@ink" }, align: "left" },
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" },
      dragmode: "zoom",
      modebar: { bgcolor: "rgba(0,0,0,0)", color: "@muted", activecolor: "@ink" },
    };
    for (const key of Object.keys(given)) if (/^[xy]axis/.test(key)) all[key] = axis(given[key]);
    all.xaxis.title = { text: given.xaxis.over || "step", standoff: 4, font: { size: 11 } };
    delete all.xaxis.over;
    if (given.yaxis.heat) {
      all.yaxis = axis({
        ...given.yaxis, showticklabels: !narrow(), tickfont: { size: 10 }, showgrid: false,
        fixedrange: true,
      });
      delete all.yaxis.heat;
      all.xaxis.showgrid = false;
    }
    return themed(all);
  }

  function data(figure) {
    return figure.data.map((trace) => {
      const copy = themed(trace);
      if (trace.type !== "heatmap" || !trace.zmax) return copy;
      // What a cell says when pointed at: its steps and its value, from the logarithm.
      const from = trace.x.map((x) => Math.ceil(x));
      const steps = (i) => {
        const last = Math.floor(trace.x[i + 1]);
        return from[i] >= last ? "step " + last : "steps " + from[i] + " to " + last;
      };
      copy.text = trace.z.map((row) =>
        row.map((z, i) => (z === null ? "" : steps(i) + ": " + Number((10 ** z).toPrecision(3)))));
      copy.hovertemplate = "%{y}<br>%{text}<extra></extra>";
      return copy;
    });
  }

  let moving = false;
  async function move(range, source) {
    if (moving) return;
    moving = true;
    try {
      await Promise.all(charts().filter((chart) => chart !== source && chart.layout)
        .map((chart) => Plotly.relayout(chart, { "xaxis.range": [...range] })));
    } finally { moving = false; }
    if (form) {
      form.elements.first.value = Math.max(Math.ceil(range[0]), Number(form.elements.first.min));
      form.elements.last.value = Math.min(Math.floor(range[1]), Number(form.elements.last.max));
    }
  }

  function follow(chart) {
    chart.on("plotly_relayout", (change) => {
      if (moving) return;
      const whole = change["xaxis.range"];
      if (whole) move(whole, chart);
      else if ("xaxis.range[0]" in change) move([change["xaxis.range[0]"], change["xaxis.range[1]"]], chart);
      else if (change["xaxis.autorange"]) move(chart.layout.xaxis.range, chart);
    });
  }

  async function draw() {
    for (const chart of charts()) {
      const figure = figures[chart.id.replace("chart-", "")];
      const range = chart.layout ? chart.layout.xaxis.range : figure.layout.xaxis.range;
      const wanted = layout(figure);
      wanted.xaxis.range = [...range];
      if (chart.layout) await Plotly.react(chart, data(figure), wanted, config);
      else {
        await Plotly.newPlot(chart, data(figure), wanted, config);
        follow(chart);
      }
      await new Promise((next) => setTimeout(next)); // let the reader scroll meanwhile
    }
    document.documentElement.dataset.drawn = "true";
  }

  if (form) {
    const all = Object.values(figures)[0].layout.xaxis.range;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const ends = [Number(form.elements.first.value), Number(form.elements.last.value)].sort((a, b) => a - b);
      move([ends[0] - 0.5, ends[1] + 0.5], null);
    });
    form.elements.reset.addEventListener("click", () => move(all, null));
  }
  for (const link of document.querySelectorAll("[data-steps]")) {
    link.addEventListener("click", () => {
      move(JSON.parse(link.dataset.steps), null);
      document.getElementById("charts").scrollIntoView();
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
})();
