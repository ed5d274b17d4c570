# SPDX-License-Identifier: Apache-2.0
#
# usage: browser.py PAGE
#
# Opens a page of heaptap html in chromium as a person would, and prints one JSON object: what was on the
# console, what was asked of a network, what the views showed.
import json
import pathlib
import sys

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

VIEWS = ["grows", "flame", "sites", "threads", "sizes", "about"]


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


# The window, what the page computes for it, and the root of the flame graph.
def window(driver):
    now = state(driver)
    step = driver.execute_script("return heaptap.stepNs") / 1e6
    buckets = driver.execute_script("return heaptap.buckets")
    return {
        "from_ms": now["from"] * step if now["from"] else None,
        "to_ms": now["to"] * step if now["to"] < buckets else None,
        "totals": driver.execute_script(
            "return heaptap.sums(heaptap.state().from, heaptap.state().to)"),
        "rootSums": [driver.execute_script("return heaptap.rootSum()")],
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
        find(driver, "tab-" + view).click()
        shown[view] = find(driver, "view").text
    return shown


def search(driver, words):
    field = find(driver, "search")
    field.clear()
    field.send_keys(words)
    return find(driver, "search-result").text


def keys(driver):
    find(driver, "tab-flame").click()
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


def narrow_and_dark(driver):
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    widths = []
    for view in VIEWS:
        find(driver, "tab-" + view).click()
        widths.append(driver.execute_script("return document.documentElement.scrollWidth"))
    return {"width": max(widths), "ground": driver.execute_script(
        "return getComputedStyle(document.documentElement).backgroundColor")}


def requests(driver, url):
    asked = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"])
    return [one for one in asked if not one.startswith("data:") and one.split("#")[0] != url]


def look(driver, url):
    driver.get(url)
    found = {"title": driver.title, "windows": [window(driver)], "views": look_at_views(driver)}
    find(driver, "tab-flame").click()
    brush(driver, 0.25, 0.6)
    found["windows"].append(window(driver))
    ActionChains(driver).double_click(find(driver, "brush")).perform()
    found["windows"].append(window(driver))
    found["search"] = {"all": search(driver, "."), "none": search(driver, "no such function"),
                       "bad": search(driver, "(")}
    search(driver, "")
    find(driver, "search").send_keys("x" + Keys.BACKSPACE)
    found["table"] = find(driver, "flame-table").text
    found["keys"] = keys(driver)
    found["small"] = narrow_and_dark(driver)
    found["foreign"] = driver.execute_script(
        "return document.querySelectorAll('img, iframe, object, embed, a[href]').length")
    found["isHarmed"] = driver.execute_script("return 'harmed' in window")
    found["scripts"] = driver.execute_script("return document.scripts.length")
    found["console"] = [entry["message"] for entry in driver.get_log("browser")]
    found["requests"] = requests(driver, url)
    return found


def main():
    url = pathlib.Path(sys.argv[1]).resolve().as_uri()
    driver = start()
    try:
        print(json.dumps(look(driver, url)))
    finally:
        driver.quit()


main()
