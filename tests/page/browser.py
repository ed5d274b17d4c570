# SPDX-License-Identifier: Apache-2.0
#
# usage: browser.py PAGE [diff]
#
# Opens a page of heaptap html in chromium as a person would, and prints one JSON object: what was on the
# console, what was asked of a network, what the views showed. diff: of the page of a comparison.
import json
import os
import pathlib
import sys
import tempfile
import xml.etree.ElementTree as xml

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

VIEWS = ["grows", "flame", "tree", "sites", "functions", "history", "threads", "sizes", "lifetimes", "modules",
         "source", "about"]
METRICS = ["outstanding", "growth", "live", "allocated", "calls", "freed"]
NARROW = 390


def start():
    options = Options()
    for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1000"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


def find(driver, name):
    return driver.find_element(By.ID, name)


def state(driver):
    return driver.execute_script("return heaptap.state()")


def press(driver, keys):
    ActionChains(driver, duration=0).send_keys(keys).perform()


def choose(driver, metric):
    driver.execute_script("""const select = document.getElementById('metric');
        select.value = arguments[0]; select.dispatchEvent(new Event('change'))""", metric)


def see(driver, view):
    find(driver, "tab-" + view).click()


# What each view adds up, by metric; lifetimes count blocks.
def sums(driver, metrics):
    found = []
    for metric in metrics:
        choose(driver, metric)
        for view in VIEWS[:-1]:
            see(driver, view)
            found.append({"view": view, "metric": "calls" if view == "lifetimes" else metric,
                          "sum": driver.execute_script("return heaptap.viewSum()")})
    choose(driver, "outstanding")
    return found


# The window, what the page computes for it, and what its views add up.
def window(driver, metrics):
    now = state(driver)
    step = driver.execute_script("return heaptap.stepNs") / 1e6
    buckets = driver.execute_script("return heaptap.buckets")
    return {
        "from_ms": now["from"] * step if now["from"] else None,
        "to_ms": now["to"] * step if now["to"] < buckets else None,
        "totals": driver.execute_script(
            "return heaptap.sums(heaptap.state().from, heaptap.state().to)"),
        "rootSums": [],
        "viewSums": sums(driver, metrics),
        "figures": find(driver, "figures").text,
    }


# Drags over the timeline from one part of its width to another.
def brush(driver, start_at, end_at):
    element = find(driver, "brush")
    width = element.size["width"]
    chain = ActionChains(driver, duration=0)
    chain.move_to_element_with_offset(element, int((start_at - 0.5) * width), 0)
    chain.click_and_hold()
    chain.move_to_element_with_offset(element, int((end_at - 0.5) * width), 0)
    chain.release().perform()


def look_at_views(driver):
    shown = {}
    for view in VIEWS:
        see(driver, view)
        shown[view] = find(driver, "view").text
    return shown


def search(driver, words):
    field = find(driver, "search")
    field.clear()
    field.send_keys(words)
    return find(driver, "search-result").text


def keys(driver):
    see(driver, "flame")
    canvas = find(driver, "flame")
    canvas.send_keys(Keys.ARROW_DOWN)
    canvas.send_keys(Keys.ENTER)
    zoomed = state(driver)["zoom"]
    find(driver, "flame").send_keys(Keys.ESCAPE)
    brush(driver, 0.3, 0.5)
    before = state(driver)
    find(driver, "brush").send_keys(Keys.ARROW_RIGHT)
    moved = state(driver)
    address = driver.current_url
    find(driver, "brush").send_keys(Keys.ESCAPE)
    return {"zoomed": zoomed, "reset": state(driver)["zoom"],
            "moved": moved["from"] - before["from"],
            "length": (moved["to"] - moved["from"]) - (before["to"] - before["from"]),
            "isInAddress": "from=%d" % moved["from"] in address}


# Keys that work everywhere: a view, the metric, a part of the time, the list of keys, the search.
def shortcuts(driver):
    find(driver, "view").send_keys("3")
    found = {"view": state(driver)["view"]}
    press(driver, "m")
    found["metric"] = state(driver)["metric"]
    press(driver, "[")
    found["half"] = state(driver)["to"] * 2 <= driver.execute_script("return heaptap.buckets") + 1
    press(driver, "p")
    found["peak"] = state(driver)["to"] - state(driver)["from"]
    press(driver, "w")
    found["isWhole"] = state(driver)["from"] == 0
    press(driver, "?")
    found["list"] = driver.find_element(By.TAG_NAME, "dialog").text
    press(driver, Keys.ESCAPE)
    press(driver, "/")
    found["focus"] = driver.execute_script("return document.activeElement.id")
    press(driver, Keys.ESCAPE)
    choose(driver, "outstanding")
    return found


# The rows of the tree, as many as are there after each key.
def tree(driver):
    see(driver, "tree")
    count = "return document.querySelectorAll('#tree tbody tr').length"
    for button in driver.find_elements(By.CSS_SELECTOR, "#view > .bar > button"):
        if button.text == "Close all":
            button.click()
    driver.execute_script("document.querySelector('#tree tbody tr').focus()")
    counts = [driver.execute_script(count)]
    for key in [Keys.ARROW_LEFT, Keys.ARROW_RIGHT, Keys.ARROW_DOWN]:
        press(driver, key)
        counts.append(driver.execute_script(count))
    focused = driver.execute_script("return document.activeElement.getAttribute('aria-level')")
    press(driver, Keys.ENTER)
    return {"counts": counts, "level": focused, "view": state(driver)["view"],
            "call": state(driver)["call"], "callers": find(driver, "callers").text}


# Only chains through a function, then all others: together they are all.
def filters(driver):
    see(driver, "functions")
    found = {"all": driver.execute_script("return heaptap.viewSum()")}
    driver.find_element(By.XPATH, "//main//button[text()='Only this']").click()
    found["only"] = driver.execute_script("return heaptap.viewSum()")
    found["chip"] = find(driver, "filters").text
    find(driver, "filters").find_element(By.TAG_NAME, "button").click()
    driver.find_element(By.XPATH, "//main//button[text()='Hide']").click()
    found["without"] = driver.execute_script("return heaptap.viewSum()")
    find(driver, "filters").find_element(By.TAG_NAME, "button").click()
    found["isEmpty"] = find(driver, "filters").text == ""
    return found


# The way back leads through views and selections.
def back(driver):
    see(driver, "sites")
    see(driver, "sizes")
    driver.back()
    WebDriverWait(driver, 20).until(lambda _: state(driver)["view"] == "sites")
    driver.forward()
    WebDriverWait(driver, 20).until(lambda _: state(driver)["view"] == "sizes")
    return find(driver, "tab-sizes").get_attribute("aria-selected") == "true"


# What can be taken away: an SVG is XML without scripts, chains add up.
def taken(driver):
    found = {}
    for view in VIEWS[:-1]:
        see(driver, view)
        for kind in ["text", "csv", "svg", "collapsed"]:
            found[view + "." + kind] = driver.execute_script(
                "return heaptap.taken(arguments[0])", kind)
    drawings = [found.pop("flame.svg"), driver.execute_script("return heaptap.timelineSvg()")]
    tags = {node.tag.split("}")[1] for text in drawings for node in xml.fromstring(text).iter()}
    chains = found["flame.collapsed"].splitlines()
    return {"kinds": sorted(name for name, text in found.items() if text), "tags": sorted(tags),
            "sum": sum(int(line.rsplit(" ", 1)[1]) for line in chains),
            "first": found["sites.text"].splitlines()[0]}


# A browser keeps what a button saves, also under the policy of the page.
def saved(driver, folder):
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})
    see(driver, "flame")
    for kind in ["svg", "collapsed"]:
        driver.find_element(By.CSS_SELECTOR, "#saves [data-kind=%s]" % kind).click()

    # The browser writes to a file of another name first, which may still be there.
    def whole():
        return sorted(name for name in os.listdir(folder) if name.endswith((".svg", ".txt")))

    WebDriverWait(driver, 60).until(lambda _: len(whole()) == 2)
    return [name.split("-flame-")[1] for name in whole()]


# Turns a table round by its heading.
def sort(driver):
    see(driver, "sites")
    heading = "#sites [data-sort=calls]"
    column = ("const at = [...document.querySelectorAll('#sites th')].findIndex((one) => "
              "one.querySelector('[data-sort=calls]')); return "
              "[...document.querySelectorAll('#sites tbody tr')].map((row) => "
              "Number(row.cells[at].textContent.replace(/,/g, '')))")
    driver.find_element(By.CSS_SELECTOR, heading).click()
    down = driver.execute_script(column)
    driver.find_element(By.CSS_SELECTOR, heading).click()
    up = driver.execute_script(column)
    return {"down": down == sorted(down, reverse=True), "up": up == sorted(up)}


def ground(driver):
    return driver.execute_script(
        "return getComputedStyle(document.documentElement).backgroundColor")


def narrow_and_dark(driver, views):
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": NARROW, "height": 800, "deviceScaleFactor": 1, "mobile": False})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    widths = []
    for view in views:
        see(driver, view)
        widths.append(driver.execute_script("return document.documentElement.scrollWidth"))
    found = {"width": max(widths), "ground": ground(driver)}
    # What grows is answered before anything is scrolled.
    see(driver, "grows")
    found["headline"] = driver.execute_script(
        "scrollTo(0, 0); return Math.round(document.getElementById('headline').getBoundingClientRect().top)")
    find(driver, "theme").click()
    found["chosen"] = ground(driver)
    return found


# A byte that a cell has wrongly shows in each view.
def corrupted(driver):
    see(driver, "grows")
    driver.execute_script("const model = heaptap.model(); delete model.index; "
                          "model.cell.allocatedBytes[0] += 1; model.cell.allocations[0] += 1; "
                          "heaptap.show(model)")
    return sums(driver, ["allocated", "calls"])


def requests(driver, url):
    asked = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"])
    return [one for one in asked if not one.startswith("data:") and one.split("#")[0] != url]


def open_page(driver, url):
    driver.get(url)
    WebDriverWait(driver, 60).until(lambda _: driver.execute_script(
        "return document.querySelector('#view').childElementCount > 0"))


def quiet(driver, url):
    return {"foreign": driver.execute_script(
                "return document.querySelectorAll('img, iframe, object, embed, a[href]').length"),
            "isHarmed": driver.execute_script("return 'harmed' in window"),
            "scripts": driver.execute_script("return document.scripts.length"),
            "console": [entry["message"] for entry in driver.get_log("browser")],
            "requests": requests(driver, url)}


def look(driver, url):
    open_page(driver, url)
    found = {"title": driver.title, "windows": [window(driver, METRICS)], "views": look_at_views(driver)}
    see(driver, "flame")
    brush(driver, 0.25, 0.6)
    found["windows"].append(window(driver, METRICS))
    ActionChains(driver).double_click(find(driver, "brush")).perform()
    found["windows"].append(window(driver, METRICS[:1]))
    see(driver, "flame")
    found["search"] = {"all": search(driver, "."), "none": search(driver, "no such function"),
                       "bad": search(driver, "(")}
    search(driver, "")
    find(driver, "search").send_keys("x" + Keys.BACKSPACE)
    found["table"] = find(driver, "flame-table").text
    found["keys"] = keys(driver)
    found["shortcuts"] = shortcuts(driver)
    found["tree"] = tree(driver)
    found["filters"] = filters(driver)
    found["isBack"] = back(driver)
    found["taken"] = taken(driver)
    with tempfile.TemporaryDirectory() as folder:
        found["saved"] = saved(driver, folder)
    found["sort"] = sort(driver)
    found["small"] = narrow_and_dark(driver, VIEWS)
    found["corrupted"] = corrupted(driver)
    return {**found, **quiet(driver, url)}


# The page of a comparison opens with what changed.
def look_at_diff(driver, url):
    open_page(driver, url)
    found = {"view": state(driver)["view"], "traces": find(driver, "diff-traces").text, "sums": []}
    for metric in METRICS:
        choose(driver, metric)
        found["sums"].append({"view": "diff", "metric": metric,
                              "sum": driver.execute_script("return heaptap.viewSum()")})
    choose(driver, "allocated")
    rows = "return document.querySelectorAll('#diff tbody tr').length"
    found["all"] = driver.execute_script(rows)
    driver.find_element(By.XPATH, "//main//button[starts-with(text(), 'New ')]").click()
    found["new"] = driver.execute_script(rows)
    found["text"] = find(driver, "diff").text
    found["isInAddress"] = "change=new" in driver.current_url
    drawing = driver.execute_script("return heaptap.taken('svg')")
    found["tags"] = sorted({node.tag.split("}")[1] for node in xml.fromstring(drawing).iter()})
    found["csv"] = driver.execute_script("return heaptap.taken('csv')")
    find(driver, "diff-flame").click()
    found["small"] = narrow_and_dark(driver, ["diff"])
    return {**found, **quiet(driver, url)}


def main():
    url = pathlib.Path(sys.argv[1]).resolve().as_uri()
    driver = start()
    try:
        print(json.dumps((look_at_diff if sys.argv[2:] == ["diff"] else look)(driver, url)))
    finally:
        driver.quit()


main()
